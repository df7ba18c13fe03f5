// SPDX-License-Identifier: Apache-2.0
// Strict parser of a descriptor: one flat JSON object of known fields, each once.
#include <bitset>
#include <nlohmann/json.hpp>

#include "protocol/descriptor/fields.h"

namespace orlop {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxText = 16 * 1024;  // generous: white space and escapes
constexpr std::size_t kMaxShown = 64;        // of foreign text in a message

std::string shown(std::string_view text) {
  return "'" + std::string(text.substr(0, kMaxShown)) + (text.size() > kMaxShown ? "...'" : "'");
}

// Takes events of the parser; returning false stops it, `error` then says why.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  NamespaceDescriptor descriptor;
  std::string error;

  bool null() override { return wrong_type("null"); }
  bool boolean(bool) override { return wrong_type("a boolean"); }
  bool number_float(double, const std::string&) override { return wrong_type("a fraction"); }
  bool binary(Json::binary_t&) override { return wrong_type("binary"); }
  bool start_array(std::size_t) override { return wrong_type("an array"); }
  bool end_array() override { return true; }
  bool end_object() override { return true; }

  bool number_integer(std::int64_t value) override {
    if (!takes_number()) return false;
    return refuse(std::string(field_->name) + " is " + std::to_string(value) +
                  "; it cannot be negative");
  }
  bool number_unsigned(std::uint64_t value) override {
    if (!takes_number()) return false;
    if (value > field_->most) {
      return refuse(std::string(field_->name) + " is " + std::to_string(value) + "; allowed are " +
                    std::to_string(field_->least) + " to " + std::to_string(field_->most));
    }
    descriptor.*field_->number = static_cast<std::uint32_t>(value);
    return true;
  }
  bool string(std::string& value) override {
    if (field_ == nullptr || field_->text == nullptr) return wrong_type("a string");
    descriptor.*field_->text = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override {
    if (open_) return wrong_type("an object");
    open_ = true;
    return true;
  }
  bool key(std::string& name) override {
    field_ = find_descriptor_field(name);
    if (field_ == nullptr) {
      return refuse("unknown field " + shown(name) + "; did you mean '" +
                    std::string(nearest_descriptor_field(name)) + "'?");
    }
    const auto number = static_cast<std::size_t>(field_ - descriptor_fields().data());
    if (seen_.test(number)) return refuse("field '" + name + "' is given twice");
    seen_.set(number);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return refuse("not JSON at byte " + std::to_string(position));
  }

 private:
  bool refuse(std::string text) {
    error = std::move(text);
    return false;
  }
  bool wrong_type(const char* found) {
    if (field_ == nullptr) return refuse(std::string("is ") + found + ", not an object");
    return refuse(std::string(field_->name) + " is " + found + ", but it must be " +
                  (field_->text != nullptr ? "a string" : "a whole number"));
  }
  bool takes_number() {
    return field_ != nullptr && field_->number != nullptr ? true : wrong_type("a number");
  }

  const DescriptorField* field_ = nullptr;  // whose value comes next
  std::bitset<64> seen_;
  bool open_ = false;
};

}  // namespace

Result<NamespaceDescriptor> parse_descriptor(std::string_view json) {
  const auto refuse = [](ErrorCode code, const std::string& text) {
    return fail(code, "namespace descriptor: " + text);
  };
  if (json.size() > kMaxText) {
    return refuse(ErrorCode::kInvalidArgument, "has " + std::to_string(json.size()) +
                                                   " bytes; at most " + std::to_string(kMaxText) +
                                                   " are read");
  }
  Reader reader;
  const bool parsed = Json::sax_parse(json.begin(), json.end(), &reader);
  if (!parsed) {
    const bool unknown = reader.error.starts_with("unknown field");
    return refuse(unknown ? ErrorCode::kNamespaceConflict : ErrorCode::kInvalidArgument,
                  reader.error);
  }
  if (auto wrong = refuse_descriptor(reader.descriptor))
    return refuse(ErrorCode::kInvalidArgument, *wrong);
  return std::move(reader.descriptor);
}

}  // namespace orlop
