// The table of settings as command-line flags.

import { type Command, Option } from 'commander';
import { type ConfigOption, configOptions, flagOf, optionNames } from '../config-options.ts';

/** Values stay as they are typed; config.ts reads and checks them together with the other sources. */
export function addConfigOptions(command: Command): Command {
  command.option('--config <file>', 'config file; ~/.chairlift/config.json where it exists');
  for (const name of optionNames) {
    const { kind, meaning }: ConfigOption = configOptions[name];
    const flag = flagOf(name);
    if (kind.type === 'switch') command.addOption(new Option(flag, meaning));
    else if (kind.type === 'list') command.addOption(new Option(`${flag} <values...>`, meaning));
    else command.addOption(new Option(`${flag} <${kind.type}>`, meaning));
  }
  return command;
}
