// One training step of a linear Q function: q(s, a) = <params[a], s>.
//
// params, grads, m, v: [n_actions][state_dim] f32.   states, next_states: [batch][state_dim] f32.
// All launches are on the trainer's one stream.

typedef unsigned int u32;

__device__ float dot(const float* a, const float* b, u32 n) {
    float sum = 0.0f;
    for (u32 k = 0; k < n; ++k) sum += a[k] * b[k];
    return sum;
}

__device__ void row_forward(const float* params, const float* states, const float* next_states, const u32* actions,
                            const float* rewards, const float* dones, const float* weights, float* td, float* loss,
                            float gamma, u32 row, u32 batch, u32 dim, u32 n_actions) {
    float best = -3.4e38f;
    for (u32 a = 0; a < n_actions; ++a) best = fmaxf(best, dot(params + a * dim, next_states + row * dim, dim));
    const float target = rewards[row] + gamma * (1.0f - dones[row]) * best;
    td[row] = target - dot(params + min(actions[row], n_actions - 1) * dim, states + row * dim, dim);
    atomicAdd(loss, 0.5f * weights[row] * td[row] * td[row] / batch);
}

__device__ void row_backward(const float* states, const u32* actions, const float* weights, const float* td,
                             float* grads, u32 row, u32 batch, u32 dim, u32 n_actions) {
    const float scale = -weights[row] * td[row] / batch;
    float* grad = grads + min(actions[row], n_actions - 1) * dim;
    for (u32 k = 0; k < dim; ++k) atomicAdd(grad + k, scale * states[row * dim + k]);
}

// Launch for the three below: one thread per row. `loss` and `grads` are zero before.
extern "C" __global__ void graph_forward(const float* params, const float* states, const float* next_states,
                                         const u32* actions, const float* rewards, const float* dones,
                                         const float* weights, float* td, float* loss, float gamma, u32 batch, u32 dim,
                                         u32 n_actions) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < batch)
        row_forward(params, states, next_states, actions, rewards, dones, weights, td, loss, gamma, row, batch, dim,
                    n_actions);
}

extern "C" __global__ void graph_backward(const float* states, const u32* actions, const float* weights,
                                          const float* td, float* grads, u32 batch, u32 dim, u32 n_actions) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < batch) row_backward(states, actions, weights, td, grads, row, batch, dim, n_actions);
}

extern "C" __global__ void graph_mega(const float* params, const float* states, const float* next_states,
                                      const u32* actions, const float* rewards, const float* dones,
                                      const float* weights, float* td, float* loss, float* grads, float gamma,
                                      u32 batch, u32 dim, u32 n_actions) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= batch) return;
    row_forward(params, states, next_states, actions, rewards, dones, weights, td, loss, gamma, row, batch, dim,
                n_actions);
    row_backward(states, actions, weights, td, grads, row, batch, dim, n_actions);
}

// Adam (Kingma, Ba 2015) without weight decay; also adds up the squared gradient.
//   Launch: one thread per parameter. `norm2` is zero before.
extern "C" __global__ void graph_adam(float* params, const float* grads, float* m, float* v, float* norm2, float rate,
                                      u32 step, u32 n) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    const float grad = grads[at];
    atomicAdd(norm2, grad * grad);
    m[at] = 0.9f * m[at] + 0.1f * grad;
    v[at] = 0.999f * v[at] + 0.001f * grad * grad;
    const float m_hat = m[at] / (1.0f - powf(0.9f, step)), v_hat = v[at] / (1.0f - powf(0.999f, step));
    params[at] -= rate * m_hat / (sqrtf(v_hat) + 1e-8f);
}
