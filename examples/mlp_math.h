#pragma once

#include <cmath>
#include <cstdint>

#include "examples/mlp.h"

#if defined(__CUDACC__)
#define RINGFEED_MLP_HOST_DEVICE __host__ __device__
#else
#define RINGFEED_MLP_HOST_DEVICE
#endif

// What one thread of a device computes: the same lines for CUDA and for its twin on the host.

namespace mlp {

/// Spread over +-1/sqrt(inputs) as a hash of the weight's number wants it; biases are 0.
RINGFEED_MLP_HOST_DEVICE inline float InitialWeight(int weight) {
  constexpr int kOutput = kHidden * kInputs + kHidden;
  const bool is_hidden = weight < kHidden * kInputs;
  const bool is_output = weight >= kOutput && weight < kOutput + kClasses * kHidden;
  if (!is_hidden && !is_output) return 0;
  std::uint32_t hash = (static_cast<std::uint32_t>(weight) + 1) * 0x9E3779B1U;
  hash = (hash ^ (hash >> 15)) * 0x85EBCA77U;
  hash = (hash ^ (hash >> 13)) * 0xC2B2AE3DU;
  const float unit = static_cast<float>((hash ^ (hash >> 16)) >> 8) / 16777216.0F;
  return (2 * unit - 1) / sqrtf(static_cast<float>(is_hidden ? kInputs : kHidden));
}

/// A row forward and back.
RINGFEED_MLP_HOST_DEVICE inline void RunRow(const Weights& weights, const float* inputs,
                                            std::int64_t label, RowState* row) {
  for (int h = 0; h < kHidden; ++h) {
    float sum = weights.hidden_bias[h];
    for (int i = 0; i < kInputs; ++i) sum += weights.hidden[h][i] * inputs[i];
    row->hidden[h] = sum > 0 ? sum : 0;
  }
  float logits[kClasses];
  float highest = 0;
  for (int c = 0; c < kClasses; ++c) {
    logits[c] = weights.output_bias[c];
    for (int h = 0; h < kHidden; ++h) logits[c] += weights.output[c][h] * row->hidden[h];
    if (c == 0 || logits[c] > highest) highest = logits[c];
  }
  float total = 0;
  for (int c = 0; c < kClasses; ++c) total += expf(logits[c] - highest);
  row->loss = highest + logf(total) - logits[label];
  for (int c = 0; c < kClasses; ++c) {
    const float probability = expf(logits[c] - highest) / total;
    row->output_slopes[c] = probability - (c == label ? 1.0F : 0.0F);
  }
  for (int h = 0; h < kHidden; ++h) {
    float slope = 0;
    for (int c = 0; c < kClasses; ++c) slope += weights.output[c][h] * row->output_slopes[c];
    row->hidden_slopes[h] = row->hidden[h] > 0 ? slope : 0;
  }
}

/// What a row adds to one of the sums.
RINGFEED_MLP_HOST_DEVICE inline float TermOf(int sum, const float* inputs, const RowState& row) {
  constexpr int kOutput = kHidden * kInputs + kHidden;
  constexpr int kOutputBias = kOutput + kClasses * kHidden;
  if (sum < kHidden * kInputs) return row.hidden_slopes[sum / kInputs] * inputs[sum % kInputs];
  if (sum < kOutput) return row.hidden_slopes[sum - kHidden * kInputs];
  if (sum < kOutputBias) {
    return row.output_slopes[(sum - kOutput) / kHidden] * row.hidden[(sum - kOutput) % kHidden];
  }
  if (sum < kWeights) return row.output_slopes[sum - kOutputBias];
  return sum == kWeights ? row.loss : 1.0F;
}

/// One of the sums. Always in the order of rows, so that a device gets the same ones every time.
RINGFEED_MLP_HOST_DEVICE inline float SumOver(int sum, const Batch& batch, const RowState* rows) {
  float total = 0;
  for (std::uint64_t r = 0; r < batch.rows; ++r) {
    total += TermOf(sum, batch.inputs + r * kInputs, rows[r]);
  }
  return total;
}

RINGFEED_MLP_HOST_DEVICE inline void UpdateWeight(int weight, float rate, const Sums& sums,
                                                  float* weights) {
  if (sums.rows > 0) weights[weight] -= rate * sums.slopes[weight] / sums.rows;
}

}  // namespace mlp
