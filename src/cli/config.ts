// `chairlift config`: the effective configuration and where each value comes from.

import type { Command } from 'commander';
import { type ChosenSettings, chosenSettings } from '../app/effective-settings.ts';
import { processInputs, type ResolvedConfig, resolveConfig } from '../config.ts';
import { type ConfigOption, configOptions, optionNames } from '../config-options.ts';
import { withoutPassword } from '../store/postgres-address.ts';
import { addConfigOptions } from './flags.ts';

export function addConfig(program: Command): void {
  const command = program
    .command('config')
    .description('show the effective configuration and where each value comes from')
    .option('--json', 'print JSON');
  addConfigOptions(command).action(async (flags: { json?: true }) => {
    const inputs = processInputs(flags);
    const resolved = resolveConfig(inputs);
    const chosen = await chosenSettings(resolved.config, inputs.home);
    const shown = forPeople(resolved);
    process.stdout.write(`${flags.json ? JSON.stringify({ ...shown, chosen }) : layOut(shown, chosen)}\n`);
  });
}

/** Hides passwords, also in addresses. */
export function forPeople(resolved: ResolvedConfig): ResolvedConfig {
  const { config } = resolved;
  const secrets = optionNames.filter(
    (name) => (configOptions[name] as ConfigOption).secret && config[name] !== undefined,
  );
  return {
    ...resolved,
    config: {
      ...config,
      ...Object.fromEntries(secrets.map((name) => [name, '(hidden)'])),
      ...(config.database === undefined ? {} : { database: withoutPassword(config.database) }),
      upstreams: config.upstreams.map((one) => ({
        ...one,
        url: one.url.replace(/\/\/.*@/s, '//'),
        ...(one.key === undefined ? {} : { key: '(hidden)' }),
      })),
      join: config.join.map((address) => address.replace(/^([a-z]+:\/\/)?.*@/is, '$1')),
    },
  };
}

/** What nobody has given is what the server would choose. */
export function layOut({ config, sources, file }: ResolvedConfig, chosen: ChosenSettings): string {
  const width = Math.max(...optionNames.map((name) => name.length));
  const rows = optionNames.map((name) => {
    const value = config[name] ?? chosen[name];
    const shown = value === undefined ? '(unset)' : Array.isArray(value) ? listed(value) : String(value);
    const source = config[name] === undefined && chosen[name] !== undefined ? 'chosen here' : sources[name];
    return `${name.padEnd(width)}  ${shown.padEnd(28)}  ${source}`;
  });
  return [`config file: ${file ?? 'none'}`, ...rows].join('\n');
}

function listed(items: readonly unknown[]): string {
  return items.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join(', ') || '(none)';
}
