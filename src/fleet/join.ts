// A node put together: its connection, its worker over the pool of this machine, and the pool of all machines that its gateway
// serves from.

import { join } from 'node:path';
import type { KV } from '@nats-io/kv';
import type { ModelPool } from '../pool/model-pool.ts';
import { DesiredState } from './desired-state.ts';
import { FleetNode } from './fleet-node.ts';
import { Dispatcher } from './gateway/dispatcher.ts';
import { FleetControl } from './gateway/fleet-control.ts';
import { FleetPool, type FleetPoolOptions } from './gateway/fleet-pool.ts';
import type { FoundAnswer } from './gateway/open-answer.ts';
import { ARCHIVE } from './gateway/request-archive.ts';
import { RoutedChoice } from './gateway/routed-choice.ts';
import { openBucket } from './kept-values.ts';
import type { Membership } from './membership.ts';
import type { PrefixMessage } from './messages.ts';
import type { NatsBus } from './nats-bus.ts';
import { Subjects } from './subjects.ts';
import { answerQuestion } from './worker/answer-questions.ts';
import { FleetWorker } from './worker/fleet-worker.ts';
import { keepPlaced } from './worker/keep-placed.ts';
import { ModelKeys } from './worker/model-key.ts';
import { PrefixTeller } from './worker/prefix-teller.ts';
import { WorkerModels, type WorkerModelsOptions } from './worker/worker-models.ts';

const FIND_MS = 1000;

export interface JoinOptions {
  /** Closed with the node. */
  readonly bus: NatsBus;
  readonly fleet: string;
  readonly node: string;
  readonly version: string;
  /** Where keys and texts of models are kept. */
  readonly folder: string;
  /** Where it is a worker: the models of this machine. */
  readonly worker?:
    | ({ readonly pool: ModelPool } & Pick<WorkerModelsOptions, 'determinism' | 'maxRunning'>)
    | undefined;
  /** Where it is a gateway. */
  readonly gateway?: Pick<FleetPoolOptions, 'textOf'> | undefined;
  readonly onProblem: (message: string) => void;
}

export interface JoinedNode {
  readonly membership: Membership;
  /** The models of all workers. Undefined where it is no gateway. */
  readonly pool: ModelPool | undefined;
  /** What operators want of it. Undefined where it is no gateway. */
  readonly control: FleetControl | undefined;
  /** Requests that have begun; undefined where it is no gateway, or nothing can be kept. */
  readonly requests: KV | undefined;
  /** Takes nothing new from now on, and says so. */
  drain(): void;
  /** Lets its worker's requests end for so long, and gives the rest to others. */
  close(limitMs: number): Promise<void>;
}

interface StartedWorker {
  readonly worker: FleetWorker;
  readonly prefixes: PrefixTeller;
}

export async function joinFleet(options: JoinOptions): Promise<JoinedNode> {
  const { bus, node, fleet, version, folder, onProblem, gateway } = options;
  const common = { node, bus, subjects: new Subjects(fleet), nowMs: () => performance.now() };
  const self = new FleetNode({
    ...common,
    roles: [
      ...(options.worker === undefined ? [] : (['worker'] as const)),
      ...(gateway === undefined ? [] : (['gateway'] as const)),
    ],
    version,
    memoryBytes: options.worker?.pool.memoryBytes ?? 0,
    onProblem,
  });
  const { membership } = self;
  const ask: FleetNode['ask'] = (name, question, timeoutMs) => self.ask(name, question, timeoutMs);
  const started = options.worker && startWorker(options.worker, self, common, folder, onProblem);
  const pool =
    gateway &&
    new FleetPool({
      ...gateway,
      membership,
      folder: join(folder, 'models'),
      ask,
      dispatcher: new Dispatcher({
        ...common,
        membership,
        choice: routedChoice(self, common),
        find: (name, id) => findAnswer(self, name, id),
      }),
    });
  const bucket = (name: string, limits: Parameters<typeof openBucket>[2]) =>
    openBucket(bus.connection, `chairlift-${fleet}-${name}`, limits, onProblem);
  const requests = gateway && (await bucket('requests', ARCHIVE));
  const state = await bucket('state', {});
  const desired = state && new DesiredState(state);
  const endPlacing =
    desired && options.worker
      ? keepPlaced({
          node,
          pool: options.worker.pool,
          membership,
          placements: () => desired.placements(),
          onProblem,
        })
      : undefined;
  self.tell();
  return {
    membership,
    pool,
    requests,
    control: gateway && new FleetControl(membership, desired, ask),
    drain: () => {
      if (started !== undefined) started.worker.draining = true;
      self.tell();
    },
    close: async (limitMs) => {
      endPlacing?.();
      await started?.worker.close(limitMs);
      started?.prefixes.close();
      self.close();
      await bus.close();
    },
  };
}

/** A choice that hears of the prefixes that workers hold. */
function routedChoice(
  self: FleetNode,
  {
    node,
    bus,
    subjects,
    nowMs,
  }: { readonly node: string; readonly bus: NatsBus; readonly subjects: Subjects; nowMs(): number },
): RoutedChoice {
  const { membership } = self;
  const ask: FleetNode['ask'] = (name, question, timeoutMs) => self.ask(name, question, timeoutMs);
  const choice = new RoutedChoice({ node, membership, ask, nowMs });
  bus.listen(subjects.everyPrefixes, (message) => choice.news(message as PrefixMessage));
  return choice;
}

function startWorker(
  { pool, determinism, maxRunning }: NonNullable<JoinOptions['worker']>,
  node: FleetNode,
  common: { readonly node: string; readonly bus: NatsBus; readonly subjects: Subjects; nowMs(): number },
  folder: string,
  onProblem: (message: string) => void,
): StartedWorker {
  const { membership, start } = node;
  const { bus, subjects } = common;
  const tell = (message: PrefixMessage) => bus.tell(subjects.prefixes(common.node), message);
  const prefixes = new PrefixTeller({ node: common.node, start, pool, tell });
  const worker = new FleetWorker({ ...common, start, membership, pool, onEnd: () => prefixes.flush() });
  const keys = new ModelKeys(join(folder, 'model-keys.json'));
  const { ledger, heard } = worker;
  const models = new WorkerModels({ pool, ledger, keys, determinism, maxRunning, onProblem });
  node.work(
    () => ({
      draining: worker.draining,
      models: models.status(),
      heard: Object.fromEntries(heard),
    }),
    (question) => answerQuestion(question, { pool, worker, prefixes }),
  );
  return { worker, prefixes };
}

/** Nobody who is silent is waited for: what is not found is computed again. */
async function findAnswer(node: FleetNode, worker: string, id: string): Promise<FoundAnswer | undefined> {
  const answer = await node.ask(worker, { kind: 'answer', id }, FIND_MS).catch(() => undefined);
  if (answer?.kind !== 'answer' || answer.found === undefined) return undefined;
  const { model, ...found } = answer.found;
  const own = node.membership.get(worker)?.models.find(({ name }) => name === model);
  return own === undefined ? undefined : { ...found, determinism: own.determinism };
}
