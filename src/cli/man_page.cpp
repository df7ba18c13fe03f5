// SPDX-License-Identifier: Apache-2.0
#include "cli/man_page.h"

#include <algorithm>

#include "cli/exit_code.h"

namespace orlop::cli {
namespace {

// Text that roff must not read as its own: backslashes, minus signs (copied from a page they must
// be the ASCII character), and dots or quotes at a line's start.
std::string escaped(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_start = c == '\n';
  }
  return out;
}

// Lines of a help text are lines of the page.
std::string paragraph(const std::string& text) {
  std::string out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin)
      out += (out.empty() ? "" : ".br\n") + escaped(text.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return out;
}

std::string bold(const std::string& text) {
  return "\\fB" + escaped(text) + "\\fR";
}
std::string italic(const std::string& text) {
  return "\\fI" + escaped(text) + "\\fR";
}

std::string value_of(const OptionFacts& option) {
  if (!option.choices.empty()) return "{" + joined(option.choices, "|") + "}";
  return option.value;
}

std::string option_entry(const OptionFacts& option, bool positional) {
  std::string head;
  for (const std::string& name : option.names)
    head += (head.empty() ? "" : ", ") + (positional ? italic(name) : bold(name));
  if (!option.value.empty() && (!positional || !option.choices.empty()))
    head += " " + italic(value_of(option));
  std::string help = paragraph(option.help);
  if (option.required) help += "Required.\n";
  if (!option.standard.empty()) help += escaped("Default: " + option.standard + ".") + "\n";
  return ".TP\n" + head + "\n" + (help.empty() ? "\\&\n" : help);
}

std::string synopsis_of(const CommandFacts& command) {
  std::string out = bold(command.path);
  if (!command.options.empty()) out += " [" + italic("options") + "]";
  if (!command.children.empty()) out += " " + italic("command");
  for (const OptionFacts& positional : command.positionals) {
    const std::string name = italic(positional.names.front());
    out += positional.required ? " " + name : " [" + name + "]";
  }
  return out;
}

std::string command_section(const CommandFacts& command) {
  std::string out = ".SS \"" + escaped(command.path) + "\"\n" + paragraph(command.help);
  out += ".PP\n" + synopsis_of(command) + "\n";
  for (const OptionFacts& positional : command.positionals) out += option_entry(positional, true);
  for (const OptionFacts& option : command.options) {
    // Every command has it; said once, in OPTIONS.
    if (std::ranges::find(option.names, "--help") != option.names.end()) continue;
    out += option_entry(option, false);
  }
  if (!command.footer.empty()) out += ".PP\n" + paragraph(command.footer);
  return out;
}

std::string exit_status() {
  std::string out = ".SH EXIT STATUS\n";
  for (const ExitCodeMeaning& row : kExitCodes)
    out += ".TP\n" + bold(std::to_string(to_int(row.code))) + "\n" + escaped(row.meaning) + "\n";
  return out;
}

}  // namespace

std::string man_page(const CommandFacts& root, const std::string& version) {
  std::string out = ".\\\" Made by `orlop man`; do not edit.\n";
  out += ".TH ORLOP 1 \"\" \"orlop " + escaped(version) + "\" \"User Commands\"\n";
  out += ".SH NAME\norlop \\- one KV cache for every inference engine on a host\n";
  out +=
      ".SH SYNOPSIS\n" + bold("orlop") + " " + italic("command") + " [" + italic("options") + "]\n";
  out += ".SH DESCRIPTION\n" +
         escaped(
             "A node (`orlop serve`) owns the cache memory of a host; engines attach to it. "
             "The other commands look at it, change it, prove it and measure it. They find the "
             "node by its socket. Text goes to standard output, errors with their remedy to "
             "standard error; colour is used only on a terminal and never when NO_COLOR is "
             "set. Commands that tell facts take --json.") +
         "\n";
  out += ".SH OPTIONS\n";
  for (const OptionFacts& option : root.options) out += option_entry(option, false);
  out += ".SH COMMANDS\n";
  for (const CommandFacts* command : all_commands(root))
    if (command != &root) out += command_section(*command);
  out += exit_status();
  out += ".SH ENVIRONMENT\n";
  out += ".TP\n" + bold("ORLOP_SOCKET") + "\n" +
         escaped("The node's socket, where --socket says nothing.") + "\n";
  out += ".TP\n" + bold("NO_COLOR") + "\nNot empty: no colour.\n";
  out += ".SH FILES\n.TP\n" + italic("/run/orlop/orlop.sock") + "\n" +
         escaped(
             "Socket of root's node; others: $XDG_RUNTIME_DIR/orlop/orlop.sock, else "
             "/tmp/orlop-UID/orlop.sock.") +
         "\n";
  return out;
}

}  // namespace orlop::cli
