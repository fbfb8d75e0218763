// Attention between the rows of a view: keys and values of all are kept, in float32, until the layer's last row is computed.
#pragma once

#include <vector>

#include "tower/program.h"
#include "tower/row-maps.h"

namespace chairlift {

class ViewAttention {
 public:
  explicit ViewAttention(RowMaps& maps) : maps_(maps) {}

  /** Makes queries, keys and values of `count` rows from `first` on. `input` begins with the first of them. */
  void project(const GridAttention& attention, const TokenGroups& groups, const float* rotations, float epsilon,
               const InputRows& input, int first, int count);
  /** What `count` places of the groups' order see, from `first` on, as the output map gives it; once all rows are projected. */
  void attend(const GridAttention& attention, const TokenGroups& groups, int first, int count, const RowView& to);

 private:
  /** Queries of one group. */
  struct Queries {
    int group, firstPlace, count;
  };

  void placeRow(const GridAttention& attention, const TokenGroups& groups, const float* turns, float epsilon, int row,
                int projected);
  void place(const GridAttention& attention, float* heads, const std::optional<SizedNorm>& norm, const float* turns,
             float epsilon) const;
  void cutQueries(const TokenGroups& groups, int first, int count);
  void attendHead(const GridAttention& attention, const TokenGroups& groups, const Queries& queries, int head, int first,
                  int worker);

  RowMaps& maps_;
  // By place of the groups' order.
  RowBuffer queries_;
  RowBuffer keysAndValues_;
  // Of the rows that are projected, and what they attend to.
  RowBuffer ownQueries_, ownKeys_, ownValues_, attended_;
  std::vector<int32_t> blocks_;
  std::vector<Queries> pieces_;
  std::vector<std::vector<float>> scratch_;
};

}  // namespace chairlift
