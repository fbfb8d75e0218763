// A model's description as plain data: layers read themselves from it without knowing that it comes from JavaScript.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace chairlift {

inline void require(bool holds, const std::string& problem) {
  if (!holds) throw std::invalid_argument("native addon: a model's description: " + problem);
}

/** A flag, a number, a text, a vector of floats or of integers, a list, or an object. */
class Record {
 public:
  struct Field;
  using List = std::vector<Record>;
  using Fields = std::vector<Field>;
  using Value = std::variant<bool, double, std::string, std::vector<float>, std::vector<int32_t>, List, Fields>;

  explicit Record(Value value) : value_(std::move(value)) {}

  /** Null where there is no such field. */
  const Record* maybe(const char* name) const;
  bool has(const char* name) const { return maybe(name) != nullptr; }
  const Record& object(const char* name) const {
    const Record* field = maybe(name);
    require(field, std::string("no ") + name);
    return *field;
  }

  bool isText(const char* name) const { return std::holds_alternative<std::string>(object(name).value_); }
  const std::string& text(const char* name) const { return object(name).as<std::string>(name); }
  double number(const char* name) const { return object(name).as<double>(name); }
  double number(const char* name, double otherwise) const { return has(name) ? number(name) : otherwise; }
  int integer(const char* name) const { return whole(number(name), name); }
  int integer(const char* name, int otherwise) const { return has(name) ? integer(name) : otherwise; }
  bool flag(const char* name) const { return has(name) && object(name).as<bool>(name); }
  const List& list(const char* name) const { return object(name).as<List>(name); }
  std::vector<double> numbers(const char* name) const {
    std::vector<double> all;
    for (const Record& item : list(name)) all.push_back(item.as<double>(name));
    return all;
  }

  std::vector<float> floats(const char* name, size_t size) const {
    const auto& values = object(name).as<std::vector<float>>(name);
    require(values.size() == size, std::string(name) + " has another size");
    return values;
  }
  /** Empty where there are none. */
  std::vector<float> maybeFloats(const char* name, size_t size) const {
    return has(name) ? floats(name, size) : std::vector<float>();
  }

  const std::vector<int32_t>& integers(const char* name) const { return object(name).as<std::vector<int32_t>>(name); }
  /** However many. */
  const std::vector<float>& floats(const char* name) const { return object(name).as<std::vector<float>>(name); }

  /** Of this, which is a number itself. */
  int wholeNumber(const char* name) const { return whole(as<double>(name), name); }

  /** Of this, which is a list itself. */
  const List& items() const { return as<List>("list"); }

 private:
  static int whole(double value, const char* name) {
    require(value == std::trunc(value) && std::fabs(value) <= 2147483647.0, std::string("not an integer: ") + name);
    return int(value);
  }

  template <class T>
  const T& as(const char* name) const {
    const T* value = std::get_if<T>(&value_);
    require(value, std::string("another type of ") + name);
    return *value;
  }

  Value value_;
};

struct Record::Field {
  std::string name;
  Record value;
};

inline const Record* Record::maybe(const char* name) const {
  for (const Field& field : as<Fields>(name)) {
    if (field.name == name) return &field.value;
  }
  return nullptr;
}

}  // namespace chairlift
