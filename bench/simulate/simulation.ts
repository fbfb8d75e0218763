// One policy under one load: workers, gateways, and the messages between them, from the first request to the last. Time is
// simulated; decisions are those of the real router, which takes real time for them, and of the workers' real schedulers.

import { KEY_LANES } from '#src/engine/cache/prefix-key.ts';
import { seedFrom, uniformAt } from '#src/sampling/random.ts';
import { EventQueue } from './event-queue.ts';
import type { PolicyName } from './policies.ts';
import type { SimulationSettings } from './settings.ts';
import { SimulatedFolder } from './simulated-folder.ts';
import { type OpenTurn, SimulatedGateway } from './simulated-gateway.ts';
import { SimulatedWorker } from './simulated-worker.ts';
import { type Conversation, MODEL_KEY, type Turn } from './traffic.ts';

interface TurnRecord {
  readonly turn: Turn;
  readonly arrivedMs: number;
  readonly firstTokenMs: number;
  readonly endMs: number;
  readonly moves: number;
}

interface Messages {
  heartbeats: number;
  cacheBatches: number;
  cacheKeys: number;
  snapshots: number;
  requests: number;
  answers: number;
}

export interface SimulationResult {
  readonly policy: PolicyName;
  readonly records: readonly TurnRecord[];
  readonly refused: number;
  readonly unsent: number;
  readonly durationMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly preemptions: number;
  readonly deaths: number;
  readonly decisionMs: readonly number[];
  readonly index: { readonly entries: number; readonly bytes: number; readonly forgotten: number };
  readonly messages: Messages;
  readonly wallMs: number;
}

/** Reading an answer takes at least this long before the next turn. */
const READING_MS = 200;
const WATCH_MS = 250;
const random = { spread: 100, phase: 101, loss: 102, death: 103 } as const;

interface Member {
  readonly name: string;
  readonly worker: SimulatedWorker;
  life: number;
  isAlive: boolean;
  heartbeats: number;
  batches: number;
  readonly heard: Map<string, number>;
}

export class Simulation {
  readonly #settings: SimulationSettings;
  readonly #policy: PolicyName;
  readonly #events = new EventQueue();
  readonly #gateways: SimulatedGateway[];
  readonly #folder: SimulatedFolder | undefined;
  #folderBatches = 0;
  readonly #members: Member[];
  readonly #byName = new Map<string, Member>();
  readonly #uniform: (purpose: keyof typeof random, n: number) => number;
  readonly #open = new Map<number, OpenTurn>();
  readonly #records: TurnRecord[] = [];
  readonly #messages: Messages = {
    heartbeats: 0,
    cacheBatches: 0,
    cacheKeys: 0,
    snapshots: 0,
    requests: 0,
    answers: 0,
  };
  #turnsLeft: number;
  #refused = 0;
  #unsent = 0;
  #promptTokens = 0;
  #cachedTokens = 0;
  #deaths = 0;
  #losses = 0;

  constructor(policy: PolicyName, settings: SimulationSettings, conversations: readonly Conversation[]) {
    this.#settings = settings;
    this.#policy = policy;
    this.#folder = settings.folderMs === undefined ? undefined : new SimulatedFolder(settings.folderMs);
    const seed = seedFrom(BigInt(settings.traffic.seed));
    this.#uniform = (purpose, n) => uniformAt(seed, n, random[purpose]);
    this.#gateways = Array.from(
      { length: settings.gateways },
      (_, n) => new SimulatedGateway(`gateway-${n}`, policy, settings),
    );
    this.#members = Array.from({ length: settings.workers }, (_, n) => this.#makeMember(n));
    this.#turnsLeft = conversations.reduce((sum, { turns }) => sum + turns.length, 0);
    this.#planStart(conversations);
  }

  run(): SimulationResult {
    const startMs = performance.now();
    this.#events.run(() => this.#turnsLeft > 0);
    const indexes = this.#gateways.map(({ router }) => router.indexOf(MODEL_KEY));
    const most = (of: (index: NonNullable<(typeof indexes)[number]>) => number) =>
      Math.max(0, ...indexes.map((index) => (index === undefined ? 0 : of(index))));
    return {
      policy: this.#policy,
      records: this.#records,
      refused: this.#refused,
      unsent: this.#unsent,
      durationMs: this.#events.nowMs,
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      preemptions: this.#members.reduce((sum, { worker }) => sum + worker.preemptions, 0),
      deaths: this.#deaths,
      decisionMs: this.#gateways.flatMap(({ decisionMs }) => decisionMs),
      index: {
        entries: most(({ size }) => size),
        bytes: most(({ bytes }) => bytes),
        forgotten: most(({ forgotten }) => forgotten),
      },
      messages: {
        ...this.#messages,
        answers: this.#members.reduce((sum, { worker }) => sum + worker.answerMessages, 0),
      },
      wallMs: performance.now() - startMs,
    };
  }

  #makeMember(n: number): Member {
    const { speeds, spread, blocks, maxRunning } = this.#settings;
    const factor = 1 + spread * (2 * this.#uniform('spread', n) - 1);
    const own = {
      ...speeds,
      promptTokenMs: factor * speeds.promptTokenMs,
      stepBaseMs: factor * speeds.stepBaseMs,
      stepRowMs: factor * speeds.stepRowMs,
    };
    const worker = new SimulatedWorker(
      { speeds: own, blocks, maxRunning, folder: this.#folder },
      this.#events,
      {
        onAdmitted: (id, cachedTokens) => this.#admitted(id, cachedTokens),
        onFirstToken: (id, nowMs) => this.#firstToken(id, nowMs),
        onEnd: (id) => this.#ended(id),
      },
    );
    const name = `worker-${n}`;
    const member = { name, worker, life: 0, isAlive: true, heartbeats: 0, batches: 0, heard: new Map() };
    this.#byName.set(name, member);
    return member;
  }

  #planStart(conversations: readonly Conversation[]): void {
    const { heartbeatMs, newsMs, failuresPerHour } = this.#settings;
    this.#members.forEach((member, n) => {
      // All are known from the start, then each has its own phase.
      this.#beat(member);
      const phase = this.#uniform('phase', n);
      this.#events.at(phase * heartbeatMs, () => this.#keepBeating(member));
      this.#events.at(phase * newsMs, () => this.#keepTelling(member));
      if (failuresPerHour > 0) this.#planDeath(member, n);
    });
    if (this.#folder !== undefined) this.#keepTellingOf(this.#folder);
    for (const gateway of this.#gateways) this.#events.at(WATCH_MS, () => this.#watch(gateway));
    for (const { turns } of conversations) this.#planTurn(turns[0], 0);
  }

  #planTurn(turn: Turn | undefined, readMs: number): void {
    if (turn === undefined) return;
    // After the first heartbeats.
    const atMs = Math.max(turn.plannedMs, readMs, this.#settings.delayMs);
    this.#events.at(atMs, (nowMs) => {
      const open = {
        turn,
        arrivedMs: nowMs,
        given: 0,
        firstTokenMs: undefined,
        assignment: undefined,
        moves: 0,
      };
      this.#open.set(turn.number, open);
      this.#send(open, nowMs);
    });
  }

  #gatewayOf({ turn }: OpenTurn): SimulatedGateway {
    return this.#gateways[turn.number % this.#gateways.length] as SimulatedGateway;
  }

  #send(open: OpenTurn, nowMs: number): void {
    const gateway = this.#gatewayOf(open);
    const decision = gateway.route(open, nowMs);
    if (decision.kind !== 'worker') {
      this.#giveUp(open);
      return;
    }
    this.#messages.requests += 1;
    const { turn, given, assignment } = open;
    this.#events.at(nowMs + this.#settings.delayMs, () => {
      const member = this.#byName.get(decision.worker) as Member;
      if (!member.isAlive || assignment === undefined) return;
      member.heard.set(gateway.name, assignment.number);
      member.worker.submit({
        id: turn.number,
        gateway: turn.number % this.#gateways.length,
        tokens: turn.conversation.tokens,
        promptTokens: turn.promptTokens + given,
        answerTokens: turn.answerTokens - given,
        priority: turn.priority,
        enqueuedMs: open.arrivedMs,
      });
    });
  }

  /** A refused conversation ends, with all its later turns. */
  #giveUp({ turn }: OpenTurn): void {
    this.#open.delete(turn.number);
    const rest = turn.conversation.turns.filter(({ number }) => number > turn.number).length;
    this.#refused += 1;
    this.#unsent += rest;
    this.#turnsLeft -= 1 + rest;
  }

  #admitted(id: number, cachedTokens: number): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#promptTokens += open.turn.promptTokens + open.given;
    this.#cachedTokens += cachedTokens;
  }

  #firstToken(id: number, nowMs: number): void {
    const open = this.#open.get(id);
    if (open !== undefined) open.firstTokenMs ??= nowMs + this.#settings.delayMs;
  }

  #ended(id: number): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    // What was sent before the worker died has arrived.
    this.#open.delete(id);
    this.#events.at(this.#events.nowMs + this.#settings.delayMs, (nowMs) => {
      const { turn, arrivedMs, firstTokenMs, moves } = open;
      this.#gatewayOf(open).ended(open);
      this.#records.push({ turn, arrivedMs, firstTokenMs: firstTokenMs ?? nowMs, endMs: nowMs, moves });
      this.#turnsLeft -= 1;
      const { turns } = turn.conversation;
      this.#planTurn(turns[turns.indexOf(turn) + 1], nowMs + READING_MS);
    });
  }

  #keepBeating(member: Member): void {
    if (member.isAlive) this.#beat(member);
    this.#events.at(this.#events.nowMs + this.#settings.heartbeatMs, () => this.#keepBeating(member));
  }

  #beat(member: Member): void {
    const nowMs = this.#events.nowMs;
    member.heartbeats += 1;
    this.#messages.heartbeats += 1;
    const heartbeat = {
      worker: member.name,
      epoch: `${member.life}`,
      number: member.heartbeats,
      draining: false,
      models: [member.worker.status(MODEL_KEY, nowMs)],
      heard: Object.fromEntries(member.heard),
    };
    this.#events.at(nowMs + this.#settings.delayMs, (heardMs) => {
      for (const gateway of this.#gateways) this.#sendElsewhere(gateway.handle(heartbeat, heardMs));
    });
  }

  #keepTelling(member: Member): void {
    if (member.isAlive) this.#tell(member);
    this.#events.at(this.#events.nowMs + this.#settings.newsMs, () => this.#keepTelling(member));
  }

  #tell(member: Member): void {
    const change = member.worker.takeCacheChange();
    if (change === undefined) return;
    const { entered, left } = change;
    member.batches += 1;
    this.#messages.cacheBatches += 1;
    this.#messages.cacheKeys += (entered.length + left.length) / KEY_LANES;
    const batch = { epoch: `${member.life}`, number: member.batches, entered, left };
    this.#events.at(this.#events.nowMs + this.#settings.delayMs, () => {
      for (const gateway of this.#gateways) {
        if (this.#isLost()) continue;
        const outcome = gateway.router.cacheBatch(member.name, MODEL_KEY, batch);
        if (outcome === 'missed') this.#askForSnapshot(gateway, member);
      }
    });
  }

  /** Whichever reader a gateway listens to. One that begins to speak for the folder is asked for all of it. */
  #keepTellingOf(folder: SimulatedFolder): void {
    const { delayMs, newsMs } = this.#settings;
    const entered = folder.takeNews(this.#events.nowMs);
    this.#folderBatches += 1;
    this.#messages.cacheBatches += 1;
    this.#messages.cacheKeys += entered.length / KEY_LANES;
    const number = this.#folderBatches;
    const all = folder.seen();
    this.#events.at(this.#events.nowMs + delayMs, () => {
      for (const { router } of this.#gateways) {
        const reporter = this.#members.find(({ name }) =>
          router.tiersOf(name, MODEL_KEY)?.isReporter('disk'),
        );
        if (reporter === undefined || this.#isLost()) continue;
        const tiers = router.tiersOf(reporter.name, MODEL_KEY);
        const batch = { epoch: 'folder', number, entered, left: new Int32Array(0) };
        if (tiers?.apply('disk', batch) === 'missed')
          tiers.replace('disk', { epoch: 'folder', number, keys: all });
      }
    });
    this.#events.at(this.#events.nowMs + newsMs, () => this.#keepTellingOf(folder));
  }

  #isLost(): boolean {
    if (this.#settings.loss === 0) return false;
    this.#losses += 1;
    return this.#uniform('loss', this.#losses) < this.#settings.loss;
  }

  #askForSnapshot(gateway: SimulatedGateway, member: Member): void {
    const { delayMs } = this.#settings;
    this.#messages.snapshots += 1;
    this.#events.at(this.#events.nowMs + delayMs, (nowMs) => {
      if (!member.isAlive) return;
      // Right after a batch: a key that enters after it and leaves before the next would stay in the snapshot for
      // ever.
      this.#tell(member);
      const keys = member.worker.cachedKeys();
      const snapshot = { epoch: `${member.life}`, number: member.batches, keys };
      this.#events.at(nowMs + delayMs, () => {
        const outcome = gateway.router.cacheSnapshot(member.name, MODEL_KEY, snapshot);
        if (outcome === 'missed') this.#askForSnapshot(gateway, member);
      });
    });
  }

  #watch(gateway: SimulatedGateway): void {
    this.#sendElsewhere(gateway.takeLost(this.#events.nowMs));
    this.#events.at(this.#events.nowMs + WATCH_MS, () => this.#watch(gateway));
  }

  /** Turns that have ended, but are not known to have, need nothing. */
  #sendElsewhere(lost: readonly OpenTurn[]): void {
    for (const open of lost) {
      if (!this.#open.has(open.turn.number)) continue;
      open.moves += 1;
      this.#send(open, this.#events.nowMs);
    }
  }

  #planDeath(member: Member, n: number): void {
    const { failuresPerHour, downMs, workers } = this.#settings;
    const uniform = this.#uniform('death', n + member.life * workers);
    const afterMs = (-Math.log(1 - uniform) * 3_600_000) / failuresPerHour;
    this.#events.at(this.#events.nowMs + afterMs, (nowMs) => {
      this.#deaths += 1;
      member.isAlive = false;
      for (const [id, given] of member.worker.kill()) {
        const open = this.#open.get(id);
        if (open !== undefined) open.given += given;
      }
      this.#events.at(nowMs + downMs, () => {
        member.isAlive = true;
        member.life += 1;
        member.heartbeats = 0;
        member.batches = 0;
        member.heard.clear();
        this.#planDeath(member, n);
      });
    });
  }
}
