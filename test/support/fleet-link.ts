// A node's way to its message system as the program goes it: from settings as a user gives them to a connection, or to a node of a fleet.

import type { NodeConnectionOptions } from '@nats-io/transport-node';
import { pino } from 'pino';
import { connectFleet, type JoinedFleet, joinFleet, planFleet } from '../../src/app/join-fleet.ts';
import { resolveConfig } from '../../src/config.ts';
import type { OptionName } from '../../src/config-options.ts';
import type { NatsBus } from '../../src/fleet/nats-bus.ts';

export type Given = Readonly<Partial<Record<OptionName, unknown>>>;

/** What was logged goes there, a line each. */
export type Log = string[];

/** Nothing but what is given counts: neither the environment nor a config file. */
async function planned(given: Given) {
  const { config } = resolveConfig({ flags: given, environment: {}, home: '/nonexistent' });
  const plan = await planFleet(config);
  if (plan === undefined) throw new Error('no fleet is named');
  return plan;
}

function loggerTo(log: Log) {
  return pino({ base: null }, { write: (line) => log.push(line) });
}

/** `changes`: what no setting changes. Waits for nobody, unless told to. */
export async function linkOf(
  given: Given,
  log: Log = [],
  changes: NodeConnectionOptions = {},
  patienceMs = 0,
): Promise<NatsBus> {
  const plan = await planned(given);
  const tls = plan.connection.tls ? { ...plan.connection.tls, ...changes.tls } : changes.tls;
  const connection = { ...plan.connection, ...changes, ...(tls ? { tls } : {}) };
  return connectFleet({ ...plan, connection }, loggerTo(log), patienceMs);
}

/** A gateway alone: it needs no model. */
export async function gatewayOf(given: Given, log: Log = []): Promise<JoinedFleet> {
  const plan = await planned(given);
  const logger = loggerTo(log);
  const bus = await connectFleet(plan, logger);
  return joinFleet(plan, bus, { worker: false, gateway: true }, undefined, '0.0.0', logger);
}
