// Joins a fleet: connects a node, starts a worker over this machine's pool, and a gateway with the pool of all machines.

import { join } from 'node:path';
import type { ModelPool } from '../pool/model-pool.ts';
import { type Clock, type RandomBytes, sleep } from '../runtime/clock.ts';
import { messageOf } from '../runtime/error-message.ts';
import type { Tracer } from '../tracing/tracer.ts';
import type { BucketOptions, KeptValues } from './bucket.ts';
import { type Bus, Subjects } from './bus.ts';
import { FleetNode } from './fleet-node.ts';
import { AnswerDirectory } from './gateway/answer-directory.ts';
import { Dispatcher } from './gateway/dispatcher.ts';
import { FleetControl } from './gateway/fleet-control.ts';
import { FleetPool, type FleetPoolOptions } from './gateway/fleet-pool.ts';
import { ModelContents } from './gateway/model-contents.ts';
import { ModelTable } from './gateway/model-table.ts';
import type { FoundAnswer } from './gateway/open-answer.ts';
import { Placing } from './gateway/placing.ts';
import { RoutedChoice } from './gateway/worker-choice.ts';
import type { Membership } from './membership.ts';
import type { Attempt, PrefixMessage, StoredMessage } from './messages.ts';
import { bucketName } from './nats-permissions.ts';
import { DesiredState, DesiredView } from './placement.ts';
import { KEEP_MS } from './request-archive.ts';
import { RunningClock } from './running-clock.ts';
import { answerQuestion } from './worker/answer-questions.ts';
import { FleetWorker } from './worker/fleet-worker.ts';
import { keepPlaced } from './worker/keep-placed.ts';
import { PrefixPublisher } from './worker/prefix-publisher.ts';
import { StoredPublisher } from './worker/stored-publisher.ts';
import { WorkSpans } from './worker/work-spans.ts';
import { WorkerModels, type WorkerModelsOptions } from './worker/worker-models.ts';
import { WorkerPictures, type WorkerPicturesOptions } from './worker/worker-pictures.ts';

const FIND_MS = 1000;
/** Every node publishes its status within this time. */
const ROUND_MS = 750;

export interface JoinOptions {
  readonly bus: Bus;
  /** Undefined, with the problem reported, where the message system stores nothing. */
  readonly openBucket: (name: string, options: BucketOptions) => Promise<KeptValues | undefined>;
  /** For a worker alone, which may not write. */
  readonly readBucket: (name: string) => Promise<Pick<KeptValues['values'], 'get'> | undefined>;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly fleet: string;
  readonly node: string;
  readonly version: string;
  readonly folder: string;
  /** For a worker: the models of this machine. */
  readonly worker?:
    | ({ readonly pool: ModelPool } & Pick<WorkerModelsOptions, 'keys' | 'determinism' | 'maxRunning'> & {
          /** Undefined where no traces are taken. */
          readonly tracer?: Tracer | undefined;
          /** Undefined where no pictures can be read. */
          readonly pictures?: WorkerPicturesOptions | undefined;
        })
    | undefined;
  readonly gateway?:
    | (Pick<FleetPoolOptions, 'openText' | 'pins'> & {
        /** Where requests are kept whose clients may come back; undefined keeps none. */
        readonly archive: Pick<BucketOptions, 'storage' | 'maxBytes'> | undefined;
        /** For the files of pictures of open requests. Default: no limit. */
        readonly pictureBytes?: number | undefined;
      })
    | undefined;
  readonly onProblem: (message: string) => void;
}

export interface JoinedNode {
  readonly membership: Membership;
  /** Undefined unless it is a gateway. */
  readonly pool: ModelPool | undefined;
  readonly control: FleetControl | undefined;
  /** The largest difference between this node's clock and another's. */
  readonly clockSkewMs: () => number;
  /** Requests that have begun; undefined unless it is a gateway that keeps them, and the message system can. */
  readonly requests: KeptValues | undefined;
  drain(): void;
  close(limitMs: number): Promise<void>;
}

interface NodeParts {
  readonly node: string;
  readonly bus: Bus;
  readonly subjects: Subjects;
  readonly nowMs: () => number;
  readonly clock: Clock;
}

interface StartedWorker {
  readonly worker: FleetWorker;
  readonly prefixes: PrefixPublisher;
  readonly stored: StoredPublisher;
}

export async function joinFleet(options: JoinOptions): Promise<JoinedNode> {
  const { bus, node, fleet, version, folder, clock, randomBytes, onProblem, gateway } = options;
  const running = new RunningClock(clock);
  const common = { node, bus, subjects: new Subjects(fleet), nowMs: running.nowMs, clock };
  const self = new FleetNode({
    ...common,
    roles: [
      ...(options.worker === undefined ? [] : (['worker'] as const)),
      ...(gateway === undefined ? [] : (['gateway'] as const)),
    ],
    version,
    memoryBytes: options.worker?.pool.memoryBytes ?? 0,
    randomBytes,
    onProblem,
  });
  const { membership, ask } = self;
  const started = options.worker && startWorker(options.worker, self, common, onProblem);
  const models = gateway && ModelTable.of(membership, gateway.pins);
  const bucket = (content: 'state' | 'requests', limits: BucketOptions) =>
    options.openBucket(bucketName(fleet, content), limits);
  const archive = gateway?.archive;
  const requests = archive && (await bucket('requests', { ...archive, ttlMs: KEEP_MS }));
  const dispatcher =
    models &&
    new Dispatcher({
      ...common,
      membership,
      choice: routedChoice(self, models, common),
      find: (name, current) => findAnswer(self, name, { ...current, gateway: node }),
      directory: requests && new AnswerDirectory(requests, clock),
      pictureBytes: gateway.pictureBytes,
    });
  const pool =
    dispatcher &&
    new FleetPool({
      ...gateway,
      membership,
      isCutOff: () => self.isCutOff(),
      models,
      folder: join(folder, 'models'),
      nowMs: common.nowMs,
      clock,
      ask,
      dispatcher,
    });
  const state = gateway && (await bucket('state', { storage: 'file' }));
  const desired = state && new DesiredState(state.values);
  if (started !== undefined) {
    // Gateways alone write what is desired, and make the bucket that it is in.
    const seen = gateway ? state?.values : await options.readBucket(bucketName(fleet, 'state'));
    started.worker.draining = await shouldDrain(node, seen && new DesiredView(seen), onProblem);
  }
  const endKeeping =
    options.worker && keepPlaced({ node, clock, pool: options.worker.pool, membership, onProblem });
  const placing =
    gateway && desired && new Placing({ desired, membership, bus, nowMs: common.nowMs, clock, onProblem });
  if (placing !== undefined) self.startPlacing(() => placing.placed);
  self.publishStatus();
  // A gateway that answers before it has heard every worker would deny models that exist.
  if (gateway !== undefined) await sleep(clock, ROUND_MS);
  return {
    membership,
    pool,
    requests,
    control:
      dispatcher &&
      new FleetControl({
        node,
        membership,
        desired,
        ask,
        contents: new ModelContents(membership, gateway.pins, onProblem),
        dispatched: dispatcher.counts,
        archiveBytes: requests && (() => requests.bytes()),
        nowMs: common.nowMs,
        clock,
      }),
    clockSkewMs: () => self.skews.largestMs,
    drain: () => {
      if (started !== undefined) started.worker.draining = true;
      self.publishStatus();
    },
    close: async (limitMs) => {
      endKeeping?.();
      placing?.close();
      await started?.worker.close(limitMs);
      started?.prefixes.close();
      started?.stored.close();
      for (const one of [requests, state]) one?.close();
      self.close();
      running.close();
      await bus.close();
    },
  };
}

/** A drain outlives the process that was drained. */
async function shouldDrain(
  node: string,
  desired: DesiredView | undefined,
  onProblem: (message: string) => void,
): Promise<boolean> {
  try {
    const isDrained = (await desired?.drained())?.includes(node) === true;
    if (isDrained) onProblem(`${node} was drained and takes nothing: chairlift fleet resume ${node}`);
    return isDrained;
  } catch (error) {
    onProblem(`whether ${node} drains cannot be read: ${messageOf(error)}`);
    return false;
  }
}

function routedChoice(
  self: FleetNode,
  models: ModelTable,
  { node, bus, subjects, nowMs }: NodeParts,
): RoutedChoice {
  const { membership } = self;
  const choice = new RoutedChoice({ node, membership, models, ask: self.ask, nowMs });
  bus.subscribe(subjects.everyPrefixes, (message) => choice.handle(message as PrefixMessage | StoredMessage));
  return choice;
}

function startWorker(
  { pool, keys, determinism, maxRunning, tracer, pictures }: NonNullable<JoinOptions['worker']>,
  node: FleetNode,
  common: NodeParts,
  onProblem: (message: string) => void,
): StartedWorker {
  const { membership, start } = node;
  const { bus, subjects, clock } = common;
  const publish = (message: PrefixMessage | StoredMessage) =>
    bus.publish(subjects.prefixes(common.node), message);
  const publishing = { node: common.node, start, pool, clock, publish };
  const prefixes = new PrefixPublisher(publishing);
  const stored = new StoredPublisher(publishing);
  const worker = new FleetWorker({
    ...common,
    start,
    membership,
    pool,
    spans: tracer && new WorkSpans({ tracer, node: common.node, clock }),
    pictures: pictures && new WorkerPictures(pictures, clock),
    onEnd: () => prefixes.flush(),
    onRefused: (subject) => node.leaveAsWorker(subject),
  });
  // Until it is known whether it was drained.
  worker.draining = true;
  const { ledger, heard } = worker;
  const readsPictures = pictures !== undefined;
  const models = new WorkerModels({
    ...{ pool, ledger, keys, readsPictures, determinism, maxRunning, clock, onProblem },
  });
  node.startWorker(
    () => ({ draining: worker.draining, models: models.status(), heard: Object.fromEntries(heard) }),
    (question) => answerQuestion(question, { pool, worker, prefixes, stored }),
  );
  return { worker, prefixes, stored };
}

/** A silent worker is not waited for: what is not found is computed again. */
async function findAnswer(
  node: FleetNode,
  worker: string,
  taken: Attempt & { readonly gateway: string },
): Promise<FoundAnswer | undefined> {
  const answer = await node.ask(worker, { kind: 'answer', ...taken }, FIND_MS).catch(() => undefined);
  if (answer?.kind !== 'answer' || answer.found === undefined) return undefined;
  const { model, ...found } = answer.found;
  const own = node.membership.get(worker)?.models.find(({ name }) => name === model);
  return own === undefined ? undefined : { ...found, determinism: own.determinism };
}
