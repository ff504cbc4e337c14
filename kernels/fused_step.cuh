// What the fused kernels of a training step share: where the loss has its inputs and its outcome.
#pragma once

// As FusedArguments in launch/fused.rs.
struct FusedArguments {
    const uint32_t* action;      // [rows]
    const float* reward;         // [rows]
    const float* weight;         // [rows]
    const float* discount;       // [rows]
    const uint32_t* batch_rows;  // how many of them are filled
    const float* huber_delta;
    const uint32_t* double_dqn;
    float* td;                   // [rows]
    double* loss_partial;        // [ceil(rows / 64)]
    const float* online_bias;
    const float* target_bias;
    uint32_t actions;
    uint32_t rows;
    uint32_t iters;              // tiles that a block takes in turn
    uint32_t pad;
};
static_assert(sizeof(FusedArguments) == 104, "launch/fused.rs lays it out so");
