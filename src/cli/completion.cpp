// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

namespace orlop::cli {
namespace {

// First line of a help text: menus have one line a word.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// Between single quotes of a POSIX shell.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string option_names(const CommandFacts& command) {
  std::vector<std::string> names;
  for (const OptionFacts& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return joined(names, " ");
}

std::string child_names(const CommandFacts& command) {
  std::vector<std::string> names;
  for (const CommandFacts& child : command.children) names.push_back(child.name);
  return joined(names, " ");
}

// Values that a positional allows; empty: any.
std::string positional_choices(const CommandFacts& command) {
  return command.positionals.empty() ? "" : joined(command.positionals.front().choices, " ");
}

// `case` patterns "path --name" of the options that take a value.
std::string value_patterns(const CommandFacts& command, const OptionFacts& option) {
  std::string out;
  for (const std::string& name : option.names)
    out += (out.empty() ? "\"" : "|\"") + command.path + " " + name + "\"";
  return out;
}

// Shared by bash and zsh: what follows an option that takes a value. action: the statement for one
// option.
std::string value_cases(const std::vector<const CommandFacts*>& all, const char* before,
                        std::string (*action)(const OptionFacts&)) {
  std::string out = std::string("  case \"$so_far ") + before + "\" in\n";
  for (const CommandFacts* command : all) {
    for (const OptionFacts& option : command->options) {
      if (option.value.empty()) continue;
      out += "    " + value_patterns(*command, option) + ") " + action(option) + "; return ;;\n";
    }
  }
  return out + "  esac\n";
}

// Shared by bash and zsh (where `path` is the shell's own): walks the words before the one to
// complete. Afterwards $so_far is the command, "orlop inspect slots". word, end, first: the word
// number i, the word to complete and the first word in that shell's terms.
std::string walk(const std::vector<const CommandFacts*>& all, const char* word, const char* end,
                 int first) {
  std::string out = "  local so_far=orlop i\n  for ((i = " + std::to_string(first) + "; i < " +
                    end + "; i++)); do\n    case \"$so_far " + word + "\" in\n";
  for (const CommandFacts* command : all) {
    if (command->path != command->name)
      out += "      \"" + command->path + "\") so_far=\"" + command->path + "\" ;;\n";
    for (const OptionFacts& option : command->options) {
      if (!option.value.empty())
        out += "      " + value_patterns(*command, option) + ") ((i++)) ;;\n";
    }
  }
  return out + "    esac\n  done\n";
}

}  // namespace

std::string bash_completion(const CommandFacts& root) {
  const auto all = all_commands(root);
  std::string out =
      "# bash completion for orlop, made by `orlop completion bash`\n"
      "_orlop() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local words=\"\"\n";
  out += walk(all, "${COMP_WORDS[i]}", "COMP_CWORD", 1);
  // The value of an option: one of a few, or left to the shell.
  out += value_cases(all, "$previous", [](const OptionFacts& option) {
    const std::string words = joined(option.choices, " ");
    return words.empty() ? std::string("COMPREPLY=()")
                         : "COMPREPLY=($(compgen -W \"" + words + "\" -- \"$current\"))";
  });
  out += "  case \"$so_far\" in\n";
  for (const CommandFacts* command : all) {
    std::vector<std::string> words;
    for (const std::string& some :
         {child_names(*command), positional_choices(*command), option_names(*command)})
      if (!some.empty()) words.push_back(some);
    out += "    \"" + command->path + "\") words=\"" + joined(words, " ") + "\" ;;\n";
  }
  return out +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _orlop orlop\n";
}

std::string zsh_completion(const CommandFacts& root) {
  const auto all = all_commands(root);
  std::string out =
      "#compdef orlop\n"
      "# zsh completion for orlop, made by `orlop completion zsh`\n"
      "_orlop() {\n"
      "  local -a entries\n";
  out += walk(all, "${words[i]}", "CURRENT", 2);
  out += value_cases(all, "${words[CURRENT-1]}", [](const OptionFacts& option) {
    return option.choices.empty() ? "_files" : "compadd -- " + joined(option.choices, " ");
  });
  out += "  case \"$so_far\" in\n";
  const auto entry = [](const std::string& name, const std::string& help) {
    std::string escaped;  // _describe splits at a colon
    for (const char c : name) escaped += c == ':' ? "\\:" : std::string(1, c);
    return "        " + shell_quoted(escaped + ":" + first_line(help)) + "\n";
  };
  for (const CommandFacts* command : all) {
    out += "    \"" + command->path + "\") entries=(\n";
    for (const CommandFacts& child : command->children) out += entry(child.name, child.help);
    if (!command->positionals.empty()) {
      for (const std::string& choice : command->positionals.front().choices)
        out += entry(choice, command->positionals.front().help);
    }
    for (const OptionFacts& option : command->options)
      for (const std::string& name : option.names) out += entry(name, option.help);
    out += "      ) ;;\n";
  }
  return out +
         "  esac\n"
         "  _describe orlop entries || _files\n"
         "}\n"
         // As a file of fpath it is the function's first call; sourced it only registers.
         "if [[ \"${funcstack[1]}\" = _orlop ]]; then _orlop \"$@\"; else compdef _orlop orlop; "
         "fi\n";
}

std::string fish_completion(const CommandFacts& root) {
  std::string out =
      "# fish completion for orlop, made by `orlop completion fish`\n"
      "# The command so far, as its names: \"orlop inspect slots\".\n"
      "function __orlop_at\n"
      "  set -l path orlop\n"
      "  set -l skip 0\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    if test $skip = 1\n      set skip 0\n      continue\n    end\n"
      "    switch \"$path $word\"\n";
  const auto all = all_commands(root);
  for (const CommandFacts* command : all) {
    if (command->path != command->name)
      out += "      case " + shell_quoted(command->path) + "\n        set path " +
             shell_quoted(command->path) + "\n";
    for (const OptionFacts& option : command->options) {
      if (option.value.empty()) continue;
      out += "      case";
      for (const std::string& name : option.names)
        out += " " + shell_quoted(command->path + " " + name);
      out += "\n        set skip 1\n";
    }
  }
  out += "    end\n  end\n  test \"$path\" = \"$argv[1]\"\nend\n";
  for (const CommandFacts* command : all) {
    const std::string at =
        "complete -c orlop -n " + shell_quoted("__orlop_at " + shell_quoted(command->path));
    for (const CommandFacts& child : command->children) {
      out += at + " -f -a " + child.name + " -d " + shell_quoted(first_line(child.help)) + "\n";
    }
    if (const std::string choices = positional_choices(*command); !choices.empty())
      out += at + " -f -a " + shell_quoted(choices) + "\n";
    for (const OptionFacts& option : command->options) {
      out += at;
      for (const std::string& name : option.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty()) out += " -r";
      if (!option.choices.empty()) out += " -f -a " + shell_quoted(joined(option.choices, " "));
      out += " -d " + shell_quoted(first_line(option.help)) + "\n";
    }
  }
  return out;
}

}  // namespace orlop::cli
