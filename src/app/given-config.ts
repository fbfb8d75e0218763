// The configuration as a program gives it: an object with the names of docs/configuration.md. What it leaves out
// comes from where the command line takes it, too: environment, config file, defaults.

import { type Config, ConfigError, processInputs, resolveConfig } from '../config.ts';
import { type configOptions, type OptionName, optionNames } from '../config-options.ts';

/** Sizes may also be texts such as '4GiB', times such as '10m'. */
type Given<Name extends OptionName> =
  | Config[Name]
  | ((typeof configOptions)[Name]['kind'] extends { type: 'bytes' | 'seconds' } ? string : never)
  | undefined;

export type GivenConfig = { readonly [Name in OptionName]?: Given<Name> } & {
  readonly config?: string | undefined;
};

/** Refuses names that are not among `known`: a misspelt option must not be ignored. */
export function configFrom(
  given: GivenConfig,
  known: readonly string[] = [...optionNames, 'config'],
): Config {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new ConfigError(`${unknown}: there is no such option; known are ${known.join(', ')}`);
  }
  return resolveConfig(processInputs(given)).config;
}
