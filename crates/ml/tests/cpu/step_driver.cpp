// Runs the kernels of a training step on the CPU, with plain products between them.
//
// Four modes; the first argument names one. This is the whole step:
//
// Arguments: step <f32|bf16> capacity rows state_dim actions head steps hidden...
// Input:  StepSettings, gamma f32, parameters f32[flat], target f32[flat]; then for each step: status u32, and with `rows` rows
//         states, next_states f32, actions u32, rewards, weights, dones f32, step_counts u32.
// Output: for each step StepState, td f32[capacity], gradient f32[flat]; then parameters, first, second, target f32[flat].
#include "cuda_on_cpu.hpp"
#include "step_kernels.cu"

#include <cmath>
#include <string>
#include <vector>

static void take(void* to, size_t bytes) {
    if (fread(to, 1, bytes, stdin) != bytes) {
        fprintf(stderr, "the input is too short\n");
        exit(2);
    }
}
template <class V>
static std::vector<V> take_all(size_t count) {
    std::vector<V> values(count);
    take(values.data(), count * sizeof(V));
    return values;
}
template <class V>
static void give(const std::vector<V>& values) {
    fwrite(values.data(), sizeof(V), values.size(), stdout);
}
static float as_float(float value) { return value; }
static float as_float(u16 value) { return f32_from_bf16(value); }
static void set(float& to, double value) { to = (float)value; }
static void set(u16& to, double value) { to = bf16_from_f32((float)value); }

struct Layer {
    size_t inputs, outputs, weight, bias;
};

template <class T, class O>
static void forward(const T* x, const T* w, const T* bias16, const float* bias32, O* y, size_t rows, const Layer& layer, bool relu) {
    for (size_t row = 0; row < rows; ++row)
        for (size_t out = 0; out < layer.outputs; ++out) {
            double sum = bias32 ? bias32[out] : as_float(bias16[out]);
            for (size_t in = 0; in < layer.inputs; ++in)
                sum += (double)as_float(x[row * layer.inputs + in]) * as_float(w[out * layer.inputs + in]);
            set(y[row * layer.outputs + out], relu && sum < 0 ? 0 : sum);
        }
}

// By name, as the log of kernels that ran wants them.
#define LAUNCH_FOR(T, of_f32, of_bf16, ...)                 \
    do {                                                    \
        if constexpr (sizeof(T) == 4) LAUNCH(of_f32, __VA_ARGS__); \
        else LAUNCH(of_bf16, __VA_ARGS__);                  \
    } while (0)

// What products read: the masters, or their bf16 copies.
static const float* stored(const std::vector<float>& masters, const std::vector<u16>&, const float*) { return masters.data(); }
static const u16* stored(const std::vector<float>&, const std::vector<u16>& copies, const u16*) { return copies.data(); }

template <class T>
static int run(size_t capacity, size_t rows, size_t dim, size_t actions, size_t head, size_t steps, std::vector<size_t> widths) {
    widths.insert(widths.begin(), dim);
    widths.push_back(2 * head);
    widths.push_back(1 + actions);
    for (size_t& width : widths) width = (width + 7) / 8 * 8;
    std::vector<Layer> layers;
    size_t weights = 0;
    for (size_t at = 0; at + 1 < widths.size(); ++at) {
        layers.push_back({widths[at], widths[at + 1], weights, 0});
        weights += widths[at] * widths[at + 1];
    }
    size_t flat = weights;
    for (Layer& layer : layers) {
        layer.bias = flat;
        flat += layer.outputs;
    }
    const size_t biases = flat - weights, tiles = (capacity + ROW_TILE - 1) / ROW_TILE;

    StepSettings settings;
    take(&settings, sizeof settings);
    float gamma;
    take(&gamma, sizeof gamma);
    auto parameter = take_all<float>(flat), target = take_all<float>(flat);
    std::vector<float> first(flat), second(flat), gradient(flat), td(capacity);
    std::vector<u16> parameter16(flat), target16(flat);
    if (sizeof(T) == 2) {
        const dim3 grid((flat + 255) / 256);
        LAUNCH(round_to_bf16, grid, dim3(256), 0, parameter.data(), parameter16.data(), (u32)flat);
        LAUNCH(round_to_bf16, grid, dim3(256), 0, target.data(), target16.data(), (u32)flat);
    }
    std::vector<T> x(2 * capacity * widths[0]);
    std::vector<u32> action(capacity);
    std::vector<float> reward(capacity), weight(capacity), discount(capacity);
    std::vector<std::vector<T>> hidden(layers.size() - 1), target_hidden(layers.size() - 1);
    for (size_t at = 0; at + 1 < layers.size(); ++at) {
        hidden[at].resize(2 * capacity * layers[at].outputs);
        target_hidden[at].resize(capacity * layers[at].outputs);
    }
    const Layer last = layers.back();
    std::vector<float> out(2 * capacity * last.outputs), target_out(capacity * last.outputs);
    std::vector<float> bias_partial(tiles * biases);
    std::vector<double> loss_partial(tiles);
    const size_t norm_blocks = (biases + BIAS_CHUNK - 1) / BIAS_CHUNK + (weights + WEIGHT_CHUNK - 1) / WEIGHT_CHUNK;
    std::vector<double> square_partial(norm_blocks);
    StepState state{};

    for (size_t step = 0; step < steps; ++step) {
        u32 status;
        take(&status, sizeof status);
        auto states = take_all<float>(rows * dim), next_states = take_all<float>(rows * dim);
        auto actions_in = take_all<u32>(rows);
        auto rewards = take_all<float>(rows), weights_in = take_all<float>(rows), dones = take_all<float>(rows);
        auto step_counts = take_all<u32>(rows);
        LAUNCH_FOR(T, upload_batch_f32_f32, upload_batch_f32_bf16, dim3(2), dim3(256), 0, states.data(), next_states.data(), actions_in.data(), rewards.data(),
               weights_in.data(), dones.data(), step_counts.data(), &status, x.data(), action.data(), reward.data(), weight.data(),
               discount.data(), &state, gamma, (u32)rows, (u32)capacity, (u32)dim, (u32)widths[0]);

        const T* online_parameters = stored(parameter, parameter16, (const T*)nullptr);
        const T* target_parameters = stored(target, target16, (const T*)nullptr);
        const T* online_input = x.data();
        const T* target_input = x.data() + capacity * widths[0];
        for (size_t at = 0; at + 1 < layers.size(); ++at) {
            const Layer& layer = layers[at];
            forward(online_input, online_parameters + layer.weight, online_parameters + layer.bias, nullptr, hidden[at].data(), 2 * capacity, layer, true);
            forward(target_input, target_parameters + layer.weight, target_parameters + layer.bias, nullptr, target_hidden[at].data(), capacity, layer, true);
            online_input = hidden[at].data();
            target_input = target_hidden[at].data();
        }
        forward(online_input, online_parameters + last.weight, online_parameters, parameter.data() + last.bias, out.data(), 2 * capacity, last, false);
        forward(target_input, target_parameters + last.weight, target_parameters, target.data() + last.bias, target_out.data(), capacity, last, false);

        std::vector<T> d(capacity * last.outputs);
        LAUNCH_FOR(T, td_loss_f32, td_loss_bf16, dim3(tiles), dim3(512), 16 * last.outputs * sizeof(float), out.data(), target_out.data(), action.data(),
               reward.data(), weight.data(), discount.data(), d.data(), td.data(), bias_partial.data() + (last.bias - weights),
               loss_partial.data(), &state, &settings, (u32)capacity, (u32)actions, (u32)last.outputs, (u32)biases);
        for (size_t at = layers.size(); at-- > 0;) {
            const Layer& layer = layers[at];
            const T* input = at == 0 ? x.data() : hidden[at - 1].data();
            for (size_t o = 0; o < layer.outputs; ++o)
                for (size_t i = 0; i < layer.inputs; ++i) {
                    double sum = 0;
                    for (size_t row = 0; row < capacity; ++row)
                        sum += (double)as_float(d[row * layer.outputs + o]) * as_float(input[row * layer.inputs + i]);
                    gradient[layer.weight + o * layer.inputs + i] = (float)sum;
                }
            if (at == 0) break;
            std::vector<T> before(capacity * layer.inputs);
            for (size_t row = 0; row < capacity; ++row)
                for (size_t i = 0; i < layer.inputs; ++i) {
                    double sum = 0;
                    for (size_t o = 0; o < layer.outputs; ++o)
                        sum += (double)as_float(d[row * layer.outputs + o]) * as_float(online_parameters[layer.weight + o * layer.inputs + i]);
                    set(before[row * layer.inputs + i], sum);
                }
            const u32 pieces = layer.inputs * sizeof(T) / 16, groups = pieces < 384 ? 384 / pieces : 1;
            LAUNCH_FOR(T, relu_backward_f32, relu_backward_bf16, dim3(tiles), dim3(pieces * groups), groups * layer.inputs * sizeof(float), before.data(), input,
                   bias_partial.data() + (layers[at - 1].bias - weights), (u32)capacity, (u32)layer.inputs, (u32)biases);
            d = before;
        }
        // The products' sums may come in parts: half of each layer's in a second one, a quarter of the last's in a third.
        std::vector<float> partial(3 * weights);
        for (size_t at = 0; at < weights; ++at) {
            const bool first_layer = at < layers[0].inputs * layers[0].outputs, last_layer = at >= last.weight;
            const float half = 0.5f * gradient[at], quarter = 0.25f * gradient[at];
            partial[at] = first_layer ? gradient[at] : half;
            partial[weights + at] = first_layer ? NAN : (last_layer ? quarter : half);
            partial[2 * weights + at] = last_layer ? quarter : NAN;
        }
        const GradientParts parts{(u32)weights, 1, 2, 3, (u32)(layers[0].inputs * layers[0].outputs), (u32)last.weight};
        LAUNCH(grad_norm, dim3(norm_blocks), dim3(256), 0, partial.data(), parts, gradient.data(), bias_partial.data(),
               square_partial.data(), &state, &settings, (u32)weights, (u32)biases, (u32)tiles, (u32)last.inputs, (u32)head);
        LAUNCH(adam_step, dim3((flat + 1023) / 1024), dim3(256), 0, gradient.data(), parameter.data(), first.data(), second.data(),
               target.data(), sizeof(T) == 2 ? parameter16.data() : nullptr, sizeof(T) == 2 ? target16.data() : nullptr,
               square_partial.data(), loss_partial.data(), &state, &settings, (u32)flat, (u32)norm_blocks, (u32)tiles);
        fwrite(&state, sizeof state, 1, stdout);
        give(td);
        give(gradient);
    }
    give(parameter);
    give(first);
    give(second);
    give(target);
    return 0;
}

// Arguments: inputs capacity rows state_dim width.  Input: states, next_states as bf16 bits, then as for a step.
// Output: x as f32 and as bf16, [2 capacity][width], from states in bf16, then both from the same states in f32;
// pad_states of the states, both types, [rows][width].
static int inputs(size_t capacity, size_t rows, size_t dim, size_t width) {
    auto states = take_all<u16>(rows * dim), next_states = take_all<u16>(rows * dim);
    std::vector<u32> ones(rows, 1), action(capacity);
    std::vector<float> zeros(rows), reward(capacity), weight(capacity), discount(capacity), x(2 * capacity * width);
    std::vector<u16> x16(2 * capacity * width);
    StepState state{};
    std::vector<float> wide(rows * dim), wide_next(rows * dim), padded(rows * width);
    std::vector<u16> padded16(rows * width);
    for (size_t at = 0; at < wide.size(); ++at) {
        wide[at] = f32_from_bf16(states[at]);
        wide_next[at] = f32_from_bf16(next_states[at]);
    }
#define UPLOAD(kernel, blocks, states, next_states, step_counts, x)                                                                  \
    std::fill(x.begin(), x.end(), x[0] + 1);                                                                                       \
    LAUNCH(kernel, dim3(blocks), dim3(256), 0, states.data(), next_states.data(), ones.data(), zeros.data(), zeros.data(),           \
           zeros.data(), step_counts, nullptr, x.data(), action.data(), reward.data(), weight.data(), discount.data(), &state, 0.5f, \
           (u32)rows, (u32)capacity, (u32)dim, (u32)width);                                                                          \
    give(x)
    UPLOAD(upload_batch_bf16_f32, 1, states, next_states, ones.data(), x);
    UPLOAD(upload_batch_bf16_bf16, 3, states, next_states, nullptr, x16);
    UPLOAD(upload_batch_f32_f32, 1, wide, wide_next, ones.data(), x);
    UPLOAD(upload_batch_f32_bf16, 2, wide, wide_next, nullptr, x16);
#undef UPLOAD
    LAUNCH(pad_states_f32, dim3(2), dim3(256), 0, wide.data(), padded.data(), (u32)rows, (u32)dim, (u32)width);
    LAUNCH(pad_states_bf16, dim3(2), dim3(256), 0, wide.data(), padded16.data(), (u32)rows, (u32)dim, (u32)width);
    give(padded);
    give(padded16);
    give(discount);
    return 0;
}

// Arguments: q rows actions width.  Input: outputs f32[rows][width].  Output: Q values f32[rows][actions].
static int q_values(size_t rows, size_t actions, size_t width) {
    auto out = take_all<float>(rows * width);
    std::vector<float> q(rows * actions);
    LAUNCH(dueling_q, dim3((rows + 7) / 8), dim3(256), 0, out.data(), q.data(), (u32)rows, (u32)actions, (u32)width);
    give(q);
    return 0;
}

// Arguments: fragments units k side.  Input: A f32[units][k].  Output: its fragments twice, from A and from its transpose.
static int fragments(size_t units, size_t k, size_t side) {
    const auto rows = take_all<float>(units * k);
    std::vector<float> columns(rows.size());
    for (size_t u = 0; u < units; ++u)
        for (size_t c = 0; c < k; ++c) columns[c * units + u] = rows[u * k + c];
    const size_t lanes = (units + 16 * side - 1) / (16 * side) * side * (k / 8) * 32;
    std::vector<float> to[2] = {std::vector<float>(4 * lanes, NAN), std::vector<float>(4 * lanes, NAN)};
    FragmentPlan plan{};
    plan.parts[0] = {rows.data(), to[0].data(), (u32)units, (u32)k, (u32)k, 1, (u32)lanes, (u32)side};
    plan.parts[FRAGMENT_PARTS - 1] = {columns.data(), to[1].data(), (u32)units, (u32)k, 1, (u32)units, (u32)lanes, (u32)side};
    LAUNCH(weight_fragments, dim3((lanes + 255) / 256, FRAGMENT_PARTS), dim3(256), 0, plan);
    give(to[0]);
    give(to[1]);
    return 0;
}

int main(int count, char** arguments) {
    const std::string mode = count > 1 ? arguments[1] : "", type = count > 2 ? arguments[2] : "";
    std::vector<size_t> sizes;
    for (int at = mode == "step" ? 3 : 2; at < count; ++at) sizes.push_back(strtoull(arguments[at], nullptr, 10));
    if (mode == "inputs" && sizes.size() == 4) return inputs(sizes[0], sizes[1], sizes[2], sizes[3]);
    if (mode == "fragments" && sizes.size() == 3) return fragments(sizes[0], sizes[1], sizes[2]);
    if (mode == "q" && sizes.size() == 3) return q_values(sizes[0], sizes[1], sizes[2]);
    if (mode == "step" && sizes.size() >= 7) {
        const std::vector<size_t> hidden(sizes.begin() + 6, sizes.end());
        return type == "bf16" ? run<u16>(sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], hidden)
                              : run<float>(sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], hidden);
    }
    fprintf(stderr, "no such mode, or another number of sizes\n");
    return 2;
}
