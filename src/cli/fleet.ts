// `chairlift fleet`: the nodes of a fleet, asked of a gateway; where models should be loaded, and which workers drain.

import type { Command } from 'commander';
import type { FleetView } from '../fleet/gateway/fleet-control.ts';
import { SHOWN_KEY } from '../fleet/gateway/model-contents.ts';
import type { ModelStatus, NodeStatus } from '../fleet/messages.ts';
import { formatBytes } from '../text/byte-size.ts';
import { addPermissions } from './fleet-permissions.ts';
import { addServerOptions, callServer, refusalOf, type ServerFlags } from './server-client.ts';
import { formatColumns } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface ShowOptions extends ServerFlags {
  readonly json?: true;
}

interface PlaceOptions extends ServerFlags {
  readonly replicas: string;
  readonly on?: readonly string[];
}

export function addFleet(program: Command): void {
  const fleet = program.command('fleet').description('the machines that serve together');
  addServerOptions(fleet.command('show', { isDefault: true }).description('show nodes, models and load'))
    .option('--json', 'print JSON')
    .action(show);
  addServerOptions(fleet.command('place <model>').description('say on how many workers a model is loaded'))
    .requiredOption('--replicas <count>', 'so many; 0 leaves it to who asks for it')
    .option('--on <nodes...>', 'workers to take before any other')
    .action(place);
  addServerOptions(
    fleet.command('drain <node>').description('have a worker take nothing new; what runs goes on'),
  ).action((node: string, flags: ServerFlags) => drain(node, true, flags));
  addServerOptions(
    fleet.command('resume <node>').description('have a drained worker take requests again'),
  ).action((node: string, flags: ServerFlags) => drain(node, false, flags));
  addPermissions(fleet);
}

async function show(options: ShowOptions): Promise<void> {
  const response = await callServer(options, '/admin/fleet');
  if (!response.ok) throw await refusalOf(response);
  const view = (await response.json()) as FleetView;
  process.stdout.write(options.json ? `${JSON.stringify(view)}\n` : `${layOut(view)}\n`);
}

async function place(model: string, { replicas, on = [], ...flags }: PlaceOptions): Promise<void> {
  const count = Number(replicas);
  if (!Number.isInteger(count) || count < 0) throw new UsageError(`--replicas: ${replicas} is no count`);
  await post(flags, '/admin/fleet/place', { model, replicas: count, nodes: on });
  const where = count === 1 ? 'one worker' : `${count} workers`;
  const wanted = count === 0 ? `${model} is loaded where it is asked for` : `${model} will be on ${where}`;
  process.stdout.write(`${wanted}\n`);
}

async function drain(node: string, on: boolean, flags: ServerFlags): Promise<void> {
  await post(flags, '/admin/fleet/drain', { node, on });
  process.stdout.write(`${node} ${on ? 'takes nothing new' : 'takes requests again'}\n`);
}

async function post(flags: ServerFlags, path: string, body: object): Promise<void> {
  const response = await callServer(flags, path, { body });
  if (!response.ok) throw await refusalOf(response);
  await response.body?.cancel();
}

function layOut({ nodes, placements, drained }: FleetView): string {
  const parts = [
    formatColumns(['node', 'roles', 'version', 'state', 'memory'], nodes.map(rowOf)),
    formatColumns(
      [
        'model',
        'content',
        'node',
        'state',
        'running',
        'waiting',
        'free blocks',
        'ms/step',
        'ms/prompt token',
      ],
      nodes.flatMap(({ node, models }) => models.map((model) => modelRow(node, model))),
    ),
  ];
  if (placements.length > 0) {
    parts.push(
      formatColumns(
        ['placed model', 'replicas', 'on'],
        placements.map(({ model, replicas, placedOn }) => [model, replicas, placedOn.join(', ')]),
      ),
    );
  }
  const away = drained.filter((name) => !nodes.some(({ node }) => node === name));
  if (away.length > 0) parts.push(`drained, and away: ${away.join(', ')}`);
  return parts.join('\n\n');
}

function rowOf({ node, roles, version, draining, memoryBytes }: NodeStatus) {
  const memory = memoryBytes === 0 ? undefined : formatBytes(memoryBytes);
  return [node, roles.join(', '), version, draining ? 'draining' : 'serving', memory];
}

function modelRow(node: string, { name, key, state, load }: ModelStatus) {
  const content = key.slice(0, SHOWN_KEY);
  if (load === undefined)
    return [name, content, node, state, undefined, undefined, undefined, undefined, undefined];
  const { running, waiting, freeBlocks, speeds } = load;
  // Unknown before the first step.
  const { stepBaseMs, stepRowMs, promptTokenMs } = speeds;
  const isMeasured = stepBaseMs !== undefined && stepRowMs !== undefined;
  const waits = waiting.reduce((sum, count) => sum + count, 0);
  return [
    name,
    content,
    node,
    state,
    running,
    waits,
    freeBlocks,
    isMeasured ? (stepBaseMs + stepRowMs).toFixed(1) : undefined,
    promptTokenMs?.toFixed(2),
  ];
}
