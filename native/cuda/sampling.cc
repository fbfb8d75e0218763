// See sampling.h.

#include "cuda/sampling.h"

#include <algorithm>
#include <chrono>

namespace chairlift {
namespace cuda {

namespace {

constexpr int pieceThreads = 256;

/** A piece of the vocabulary, and a number and a word of each thread. */
size_t pieceBytes(int vocabSize, int threads) {
  const size_t chunks = roundUp(size_t(vocabSize), sampling::listLength) / sampling::listLength;
  return chunks * sampling::groupsOfPiece * sizeof(float) + size_t(threads) * (sizeof(uint64_t) + sizeof(uint32_t));
}

/** A step without lists has the first jobs alone. */
int jobsOf(int rows, int lists) { return rows * std::max(lists, 1); }

}  // namespace

bool DeviceSampler::fits() const { return pieceBytes(vocabSize_, pieceThreads) <= work_.device.sharedBytes(); }

size_t SamplingInput::foundWords(int rows, int lists) {
  return size_t(rows) * (sampling::jobsOfRow * sampling::wordsOfHead + size_t(lists) * sampling::wordsOfList);
}

void DeviceSampler::prepare(int rows, int lists) {
  states_.room(work_, size_t(jobsOf(rows, lists)) * sizeof(sampling::SampleState));
  found_.room(work_, SamplingInput::foundWords(rows, lists) * sizeof(uint32_t));
}

void DeviceSampler::launch(const float* logits, int rows, int lists, const int32_t* jobs) {
  const SampleArgs args{logits,
                        vocabSize_,
                        jobs,
                        rows,
                        lists > 0,
                        states_.room(work_, 0).as<sampling::SampleState>(),
                        found_.room(work_, 0).as<uint32_t>()};
  const int count = jobsOf(rows, lists);
  // A warp takes a chunk of its piece at a time: small vocabularies have few.
  const int threads = std::min(pieceThreads, 32 * ((vocabSize_ + sampling::listLength - 1) / sampling::listLength));
  const Grid pieces{sampling::piecesOfRow, count, threads, pieceBytes(vocabSize_, threads)};
  Device& device = work_.device;
  device.launch("sample_groups", pieces, args);
  if (lists == 0) {
    device.launch("sample_likeliest", {1, count, 32, 0}, args);
    return;
  }
  const Grid whole{1, count, sampling::listLength, sampling::listLength * sizeof(uint64_t)};
  device.launch("sample_threshold", whole, args);
  device.launch("sample_list", pieces, args);
  device.launch("sample_sort", whole, args);
}

void DeviceSampler::download(uint32_t* found, int rows, int lists) {
  work_.device.download(found, found_.room(work_, 0).as<uint32_t>(), SamplingInput::foundWords(rows, lists) * sizeof(uint32_t));
}

double probeSampling(Device& device, const std::vector<float>& logits, int vocabSize, const SamplingInput& input, int repeats,
                     uint32_t* found) {
  DeviceWeights weights(device);
  const KvLayout layout;
  Work work(device, weights, layout, 0);
  DeviceSampler sampler(work, vocabSize);
  if (!sampler.fits()) throw DeviceError("a vocabulary of this size is not sampled on the GPU");
  const DeviceMemory rows(device, logits.size() * sizeof(float)), words(device, (input.words.size() + 2) * sizeof(int32_t));
  device.upload(rows.as<float>(), logits.data(), logits.size() * sizeof(float));
  const int32_t place[] = {2, input.rows};
  device.upload(words.as<int32_t>(), place, sizeof place);
  device.upload(words.as<int32_t>() + 2, input.words.data(), input.words.size() * sizeof(int32_t));
  sampler.prepare(input.rows, input.lists);
  const auto launch = [&] {
    sampler.launch(rows.as<float>(), input.rows, input.lists, words.as<int32_t>());
  };
  launch();
  sampler.download(found, input.rows, input.lists);
  device.wait();
  if (repeats == 0) return 0;
  // One graph of all repetitions: as a part of a step, sampling has no launches of its own either.
  const std::unique_ptr<Graph> graph = device.record([&] {
    for (int i = 0; i < repeats; i++) launch();
  });
  const auto start = std::chrono::steady_clock::now();
  device.replay(*graph);
  device.wait();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return seconds.count() / repeats;
}

}  // namespace cuda
}  // namespace chairlift
