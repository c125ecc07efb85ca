// SPDX-License-Identifier: Apache-2.0
// From a document to a configuration: every key must be known, every value of the right kind, and what is wrong is said
// with its place and, for a name, the nearest known one.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/error.h"
#include "core/json.h"

namespace quadrille {

namespace {

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// Optimal string alignment: insertions, deletions, replacements and swaps of neighbours cost one each.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

bool is_pair(const Json& v) { return v.is_array() && v.size() == 2 && v.at(0).is_string(); }

// The step `name` of a path within `parent`, made when it is missing.
Json& step(Json& parent, std::string_view name, std::string_view origin) {
  if (parent.is_object()) {
    if (Json* child = parent.find(name)) return *child;
    return parent.set(name, Json().from(std::string(origin)));
  }
  require(parent.is_array(), "{}: \"{}\" leads nowhere: what holds it is {}, neither an object nor an array", origin,
          name, parent.kind());
  std::size_t index = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (code == std::errc() && end == name.data() + name.size()) {
    require(index < parent.size(), "{}: there is no item {} in an array of {}", origin, index, parent.size());
    return parent.at(index);
  }
  require(std::all_of(parent.items().begin(), parent.items().end(), is_pair),
          "{}: \"{}\" leads nowhere: what holds it is an array, whose items have numbers", origin, name);
  for (std::size_t i = 0; i < parent.size(); ++i)
    if (parent.at(i).at(0).string() == name) return parent.at(i).at(1);
  parent.push(Json(Json::Array{Json(name).from(std::string(origin)), Json()}).from(std::string(origin)));
  return parent.at(parent.size() - 1).at(1);
}

Json value_from(std::string_view text, const std::string& origin) {
  try {
    return parse_json(text, origin).from(origin);
  } catch (const Error&) {
    if (text.starts_with('{') || text.starts_with('[') || text.starts_with('"')) throw;
    return Json(text).from(origin);
  }
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  // A third of the letters may be wrong: beyond that a suggestion misleads.
  const std::size_t limit = std::max<std::size_t>(1, (word.size() + 1) / 3);
  std::string best;
  std::size_t least = limit + 1;
  for (const std::string& name : known) {
    const std::size_t d = distance(lower(word), lower(name));
    if (d < least && d < std::max(word.size(), name.size())) best = name, least = d;
  }
  return best;
}

void set_by_path(Json& document, std::string_view assignment) {
  const std::string origin = fmt::format("--set {}", assignment);
  const std::size_t equals = assignment.find('=');
  require(equals != std::string_view::npos && equals > 0, "{}: wanted KEY=VALUE, such as training.rate=3e-4", origin);
  Json* at = &document;
  for (std::string_view path = assignment.substr(0, equals);;) {
    const std::size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    require(!name.empty(), "{}: an empty name in the path; wanted names joined by single dots", origin);
    if (at->is_null()) *at = Json::object().from(origin);
    at = &step(*at, name, origin);
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  *at = value_from(assignment.substr(equals + 1), origin);
}

Reader::Reader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  const std::string where = object.origin().empty() ? "" : object.origin() + ": ";
  require(object.is_object(), "{}{}: found {}, wanted an object", where, path_.empty() ? "the document" : path_,
          object.kind());
  resolved_.from(object.origin());
}

std::string Reader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

std::string Reader::origin_of(std::string_view key) const {
  const Json* value = object_.find(key);
  return value ? value->origin() : "default";
}

const Json* Reader::take(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  return object_.find(key);
}

void Reader::missing(std::string_view key) const {
  // A misspelt key is the usual cause: the unread one nearest to it is named.
  std::vector<std::string> unread;
  for (const auto& [name, value] : object_.members())
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) unread.push_back(name);
  const std::string near = nearest(key, unread);
  const std::string where = object_.origin().empty() ? "" : object_.origin() + ": ";
  fail("{}{} is missing and has no default{}", where, path_of(key),
       near.empty() ? "" : fmt::format("; there is an unknown \"{}\"", near));
}

namespace {

// The value through `get`, whose refusal is given the key's path; remembered in `resolved` with its origin.
template <class T, class Get>
T resolve(const Json* value, const std::string& path, std::string_view key, std::optional<T>& fallback, Json& resolved,
          Get get) {
  T out = fallback.value_or(T{});
  if (value != nullptr) {
    try {
      out = get(*value);
    } catch (const Error& e) {
      const std::string prefix = value->origin().empty() ? "" : value->origin() + ": ";
      fail("{}{}: {}", prefix, path, std::string_view(e.what()).substr(prefix.size()));
    }
  }
  resolved.set(key, Json(out).from(value ? value->origin() : "default"));
  return out;
}

}  // namespace

std::int64_t Reader::integer(std::string_view key, std::optional<std::int64_t> fallback) {
  const Json* value = take(key);
  if (!value && !fallback) missing(key);
  return resolve(value, path_of(key), key, fallback, resolved_, [](const Json& v) { return v.integer(); });
}

double Reader::number(std::string_view key, std::optional<double> fallback) {
  const Json* value = take(key);
  if (!value && !fallback) missing(key);
  return resolve(value, path_of(key), key, fallback, resolved_, [](const Json& v) { return v.number(); });
}

bool Reader::boolean(std::string_view key, std::optional<bool> fallback) {
  const Json* value = take(key);
  if (!value && !fallback) missing(key);
  return resolve(value, path_of(key), key, fallback, resolved_, [](const Json& v) { return v.boolean(); });
}

std::string Reader::string(std::string_view key, std::optional<std::string> fallback) {
  const Json* value = take(key);
  if (!value && !fallback) missing(key);
  return resolve(value, path_of(key), key, fallback, resolved_, [](const Json& v) { return v.string(); });
}

std::string Reader::choice(std::string_view key, const std::vector<std::string>& allowed,
                           std::optional<std::string> fallback) {
  const Json* value = take(key);
  if (!value && !fallback) missing(key);
  return resolve(value, path_of(key), key, fallback, resolved_, [&](const Json& v) {
    const std::string& s = v.string();
    const std::string where = v.origin().empty() ? "" : v.origin() + ": ";
    require(std::find(allowed.begin(), allowed.end(), s) != allowed.end(), "{}found \"{}\", wanted one of {}{}", where,
            s, listed(allowed), suggestion(s, allowed));
    return s;
  });
}

const Json* Reader::value(std::string_view key) {
  const Json* value = take(key);
  if (value) resolved_.set(key, *value);
  return value;
}

const Json& Reader::needed(std::string_view key) {
  const Json* found = value(key);
  if (!found) missing(key);
  return *found;
}

void Reader::done() {
  std::string problems;
  int count = 0;
  for (const auto& [name, value] : object_.members()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string where = value.origin().empty() ? "" : value.origin() + ": ";
    problems +=
        fmt::format("{}{}unknown key \"{}\"{}", count++ ? "\n" : "", where, path_of(name), suggestion(name, known_));
  }
  require(count == 0, "{}\nknown keys{}: {}", problems, path_.empty() ? "" : " of " + path_, listed(known_));
}

}  // namespace quadrille
