// `chairlift config`: the effective configuration and where each value comes from.

import type { Command } from 'commander';
import { chosenSettings, effectiveSettings, withoutSecrets } from '../app/effective-settings.ts';
import { processInputs, resolveConfig } from '../config.ts';
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
    const shown = flags.json
      ? JSON.stringify({ ...withoutSecrets(resolved), chosen })
      : layOut(effectiveSettings(resolved, chosen));
    process.stdout.write(`${shown}\n`);
  });
}

export function layOut({ file, settings }: ReturnType<typeof effectiveSettings>): string {
  const width = Math.max(...settings.map(({ name }) => name.length));
  const rows = settings.map(
    ({ name, value, source }) => `${name.padEnd(width)}  ${(value ?? '(unset)').padEnd(28)}  ${source}`,
  );
  return [`config file: ${file ?? 'none'}`, ...rows].join('\n');
}
