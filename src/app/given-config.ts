// The configuration as a program gives it: an object with the names of docs/configuration.md. What it leaves out
// comes from where the command line takes it, too: environment, config file, defaults.

import { type Config, ConfigError, processInputs, type ResolvedConfig, resolveConfig } from '../config.ts';
import {
  type configOptions,
  type exclusiveOptions,
  type OptionName,
  optionNames,
} from '../config-options.ts';
import type { OneOf } from './one-of.ts';

/** Sizes may also be texts such as '4GiB', times such as '10m'. */
type Given<Name extends OptionName> =
  | Config[Name]
  | ((typeof configOptions)[Name]['kind'] extends { type: 'bytes' | 'seconds' } ? string : never)
  | undefined;

type Exclusive = (typeof exclusiveOptions)[number][number];

/** Of settings that exclude each other, one is given; see `exclusiveOptions`. */
export type ExclusiveSettings = OneOf<{ readonly [Name in Exclusive]: Given<Name> }>;

export type GivenConfig = { readonly [Name in Exclude<OptionName, Exclusive>]?: Given<Name> } & {
  readonly config?: string | undefined;
} & ExclusiveSettings;

/** Refuses names that are not among `known`: a misspelt option must not be ignored. */
export function resolvedFrom(
  given: GivenConfig,
  known: readonly string[] = [...optionNames, 'config'],
): ResolvedConfig {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new ConfigError(`${unknown}: there is no such option; known are ${known.join(', ')}`);
  }
  return resolveConfig(processInputs(given));
}

export function configFrom(given: GivenConfig, known?: readonly string[]): Config {
  return resolvedFrom(given, known).config;
}
