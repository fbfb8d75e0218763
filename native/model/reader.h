// Reads a model's parts from its description. What does not fit together is refused: kernels trust every size.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/model.h"
#include "model/record.h"

namespace chairlift {

class Reader {
 public:
  explicit Reader(const std::vector<std::shared_ptr<Matrix>>& matrices) : matrices_(matrices) {}

  /** What has been read so far. */
  ModelParts model;

  /** Adds a linear map that writes from `offset` of the output row on. */
  void join(Linear& to, const Record& from, size_t offset, int outputs, int inputs, int members = 1) const;
  Linear linear(const Record& from, int outputs, int inputs, int members = 1) const;
  int outputsOf(const Record& linear) const;
  int inputsOf(int matrix) const;
  std::shared_ptr<Matrix> table(const Record& from, int rows, int columns) const;
  Part part(const Record& from);

  const KvCache& cache(int index) const;
  void checkRope(int index, int headSize) const;
  /** Bodies take their recurrent states in order. */
  int takeState(const Record& from, const StateLayout& layout);

 private:
  std::shared_ptr<Matrix> matrix(const Record& from, const char* name, int outputs, int inputs, int members) const;
  Addition addition(const Record& from, size_t offset, int outputs, int inputs, int members) const;

  const std::vector<std::shared_ptr<Matrix>>& matrices_;
};

Norm readNorm(const Record& from, int size);
std::optional<Norm> maybeNorm(const Record& from, const char* name, int size);
/** The activation of a body. */
Curve readCurve(const Record& body);
std::vector<KvCache> readCaches(const Record& caches);

/** All but the type of KV. */
ModelParts readModel(const Record& model, const std::vector<std::shared_ptr<Matrix>>& matrices);

}  // namespace chairlift
