// `chairlift completion SHELL`: a script for bash, zsh or fish, made from the commands and options that there are.

import { Argument, type Command, type Option } from 'commander';

type Shell = 'bash' | 'zsh' | 'fish';

const install: Readonly<Record<Shell, string>> = {
  bash: 'source <(chairlift completion bash)          in ~/.bashrc',
  zsh: 'source <(chairlift completion zsh)           in ~/.zshrc, after compinit',
  fish: 'chairlift completion fish | source           in ~/.config/fish/config.fish',
};

export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('print a script that completes commands, options and models')
    .addArgument(new Argument('<shell>').choices(Object.keys(install)))
    .addHelpText(
      'after',
      `\nTo use it:\n${Object.values(install)
        .map((line) => `  ${line}`)
        .join('\n')}`,
    )
    .action((shell: Shell) => void process.stdout.write(scripts[shell](program)));
}

/** Commands that take a model as their argument. */
const ofModels = /^<?\[?(model|models|path)\b/;

interface Completable {
  readonly name: string;
  readonly names: readonly string[];
  readonly description: string;
  readonly options: readonly Option[];
  readonly takesModel: boolean;
  readonly subcommands: readonly string[];
}

function completables(program: Command): Completable[] {
  return program.commands.map((command) => ({
    name: command.name(),
    names: [command.name(), ...command.aliases()],
    description: command.description(),
    options: command.options.filter(({ hidden }) => !hidden),
    takesModel: command.registeredArguments.some((one) => ofModels.test(one.name())),
    subcommands: command.commands.map((one) => one.name()),
  }));
}

const flagsOf = ({ short, long }: Option) =>
  [short, long].filter((flag): flag is string => flag !== undefined);

const MODELS = 'chairlift list --quiet 2>/dev/null';

function bash(program: Command): string {
  const commands = completables(program);
  const branches = commands.map(({ names, options, takesModel, subcommands }) => {
    const flags = [...options.flatMap(flagsOf), '--help'].join(' ');
    const models = takesModel ? ' models=1' : '';
    return `    ${names.join('|')}) flags="${flags}"; words="${subcommands.join(' ')}";${models} ;;`;
  });
  const choices = choicesOf(commands).map(
    ([flags, values]) =>
      `    ${flags.join('|')}) COMPREPLY=($(compgen -W "${values.join(' ')}" -- "$current")); return ;;`,
  );
  return `# bash completion of chairlift
_chairlift() {
  local current previous flags words models name
  if declare -F _get_comp_words_by_ref >/dev/null; then
    local cword
    _get_comp_words_by_ref -n : current previous cword
  else
    current="\${COMP_WORDS[COMP_CWORD]}"
    previous="\${COMP_WORDS[COMP_CWORD-1]}"
  fi
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(' ')} help --help --version" -- "$current"))
    return
  fi
  case "$previous" in
${choices.join('\n')}
  esac
  case "\${COMP_WORDS[1]}" in
${branches.join('\n')}
    help) flags=""; words="${commands.map(({ name }) => name).join(' ')}" ;;
    *) return ;;
  esac
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    # Names of models and files are data, which compgen -W would run: they are compared, never expanded.
    while IFS= read -r name; do
      if [[ "$name" == "$current"* ]]; then COMPREPLY+=("$name"); fi
    done < <([ -n "$models" ] && ${MODELS}; compgen -f -- "$current")
    if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$current"; fi
  fi
}
complete -o filenames -o bashdefault -F _chairlift chairlift
`;
}

function choicesOf(commands: readonly Completable[]): [string[], string[]][] {
  const byFlags = new Map<string, string[]>();
  for (const option of commands.flatMap(({ options }) => options)) {
    const values = valuesOf(option);
    if (values.length > 0) byFlags.set(flagsOf(option).join(' '), values);
  }
  return [...byFlags].map(([flags, values]) => [flags.split(' '), values]);
}

/** Settings name their choices in their help. */
function valuesOf({ argChoices, description }: Option): string[] {
  return argChoices ?? /\(one of ([\w, ]+)/.exec(description)?.[1]?.split(', ') ?? [];
}

function zsh(program: Command): string {
  const quoted = (text: string) =>
    text.replaceAll("'", "'\\''").replaceAll('[', '\\[').replaceAll(']', '\\]').replaceAll(':', '\\:');
  const commands = completables(program);
  const branches = commands.map(({ names, options, takesModel, subcommands }) => {
    const specs = options.flatMap((option) => {
      const values = valuesOf(option);
      const value =
        option.required || option.optional
          ? `:value:${values.length > 0 ? `(${values.join(' ')})` : '_files'}`
          : '';
      return flagsOf(option).map((flag) => `        '${flag}[${quoted(option.description)}]${value}'`);
    });
    const rest = takesModel
      ? "'*:model:_chairlift_models'"
      : subcommands.length > 0
        ? `'1:command:(${subcommands.join(' ')})'`
        : "'*:file:_files'";
    return `      ${names.join('|')}) _arguments \\\n${[...specs, `        ${rest}`].join(' \\\n')} ;;`;
  });
  return `#compdef chairlift
_chairlift_models() {
  local -a models
  models=("\${(@f)$(${MODELS})}")
  models=("\${(@)models//:/\\\\:}")
  _describe 'model' models
  _files
}
_chairlift() {
  local state
  local -a commands
  commands=(
${commands.map(({ name, description }) => `    '${name}:${quoted(description)}'`).join('\n')}
  )
  _arguments -C '1:command:->command' '*::argument:->arguments'
  case $state in
    command) _describe 'command' commands ;;
    arguments)
      case $words[1] in
${branches.join('\n')}
      esac ;;
  esac
}
if [ "$funcstack[1]" = "_chairlift" ]; then _chairlift "$@"; else compdef _chairlift chairlift; fi
`;
}

function fish(program: Command): string {
  const quoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const commands = completables(program);
  const lines = commands.flatMap(({ name, names, description, options, takesModel, subcommands }) => {
    const condition = `-n '__fish_seen_subcommand_from ${names.join(' ')}'`;
    return [
      `complete -c chairlift -n __fish_use_subcommand -f -a ${name} -d ${quoted(description)}`,
      ...(takesModel ? [`complete -c chairlift ${condition} -a '(${MODELS})' -d model`] : []),
      ...subcommands.map((one) => `complete -c chairlift ${condition} -f -a ${one}`),
      ...options.map((option) => {
        const { short, long, description: meaning } = option;
        const values = valuesOf(option);
        const value = option.required
          ? values.length > 0
            ? ` -x -a ${quoted(values.join(' '))}`
            : ' -r'
          : '';
        const flags = `${short === undefined ? '' : ` -s ${short.slice(1)}`}${long === undefined ? '' : ` -l ${long.slice(2)}`}`;
        return `complete -c chairlift ${condition}${flags}${value} -d ${quoted(meaning)}`;
      }),
    ];
  });
  return `# fish completion of chairlift\n${lines.join('\n')}\n`;
}

const scripts: Readonly<Record<Shell, (program: Command) => string>> = { bash, zsh, fish };
