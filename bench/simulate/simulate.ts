// `npm run bench -- simulate [options]`: ways to choose a worker, compared under the same arrivals on a simulated fleet. Router,
// index, admission and the workers' schedulers are the real ones. Ends in one JSON line.

import { print, report } from '../harness.ts';
import { readSettings, SettingsError, type SimulationSettings, usage } from './settings.ts';
import { Simulation } from './simulation.ts';
import { layOut, policyTable, settingRows, summarize } from './summary.ts';
import { makeTraffic, replayTraffic } from './traffic.ts';
import { WholeFleet } from './whole-fleet.ts';
import { trafficTable, wholeFigures } from './whole-summary.ts';

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
if (settings.areWhole) await simulateWhole();
else comparePolicies();

function comparePolicies(): void {
  const policies = settings.policies.map((policy) => {
    const result = new Simulation(policy, settings, conversations).run();
    process.stderr.write(`${policy}: simulated in ${(result.wallMs / 1000).toFixed(1)} s\n`);
    return summarize(result, conversations);
  });
  print(`\n${layOut(policyTable(policies))}`);
  const { workers, gateways, traffic } = settings;
  report('simulate', { workers, gateways, turns, seed: traffic.seed, policies });
}

async function simulateWhole(): Promise<void> {
  const { workers, gateways, traffic } = settings;
  const result = await new WholeFleet(settings).run(conversations);
  print(`\n${layOut(trafficTable(result))}`);
  const figures = wholeFigures(result, { workers, gateways });
  for (const [name, value] of Object.entries(figures)) print(`${name.padEnd(34)}${value}`);
  report('simulate', { nodes: 'whole', workers, gateways, turns, seed: traffic.seed, ...figures });
}
