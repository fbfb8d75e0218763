// `npm run bench -- simulate [options]`: ways to choose a worker, compared under the same arrivals on a simulated fleet. Router,
// index, admission and the workers' schedulers are the real ones. Ends in one JSON line.

import { writeFileSync } from 'node:fs';
import { print } from '../command-line.ts';
import { type ComparedPolicy, simulationPage } from './report-page.ts';
import { layOut, policyTable, settingRows } from './report-rows.ts';
import { readSettings, SettingsError, type SimulationSettings, usage } from './settings.ts';
import { Simulation } from './simulation.ts';
import { summarize } from './summary.ts';
import { makeTraffic, replayTraffic } from './traffic.ts';

function settingsOrEnd(): SimulationSettings {
  const args = process.argv.slice(2);
  if (args.includes('--help')) {
    print(usage);
    process.exit(0);
  }
  try {
    return readSettings(args);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    process.stderr.write(`${error.message}\n\n${usage}\n`);
    process.exit(2);
  }
}

const settings = settingsOrEnd();
const conversations =
  settings.trace === undefined
    ? makeTraffic(settings.traffic)
    : replayTraffic(settings.trace, settings.traffic.seed);
const turns = conversations.reduce((sum, one) => sum + one.turns.length, 0);
for (const [name, value] of settingRows(settings, turns)) print(`${name.padEnd(16)}${value}`);
const compared = settings.policies.map((policy): ComparedPolicy => {
  const result = new Simulation(policy, settings, conversations).run();
  process.stderr.write(`${policy}: simulated in ${(result.wallMs / 1000).toFixed(1)} s\n`);
  return { result, summary: summarize(result, conversations) };
});
print(`\n${layOut(policyTable(compared.map(({ summary }) => summary)))}`);
if (settings.html !== undefined) {
  writeFileSync(settings.html, simulationPage(settings, compared, turns));
  print(`\nwritten to ${settings.html}`);
}
print(
  JSON.stringify({
    benchmark: 'simulate',
    workers: settings.workers,
    gateways: settings.gateways,
    turns,
    seed: settings.traffic.seed,
    policies: compared.map(({ summary }) => summary),
  }),
);
