// One node of a fleet. A worker publishes its status twice a second, to gateways; a gateway publishes a summary once a second, to
// all. Each follows what it hears, and answers requests.

import type { Clock, RandomBytes } from '../runtime/clock.ts';
import type { Bus, Subjects } from './bus.ts';
import { ClockSkews } from './clock-skew.ts';
import { LEASE_MS, Membership } from './membership.ts';
import {
  type Answer,
  type ModelStatus,
  type NodeStatus,
  PROTOCOL,
  type Question,
  type StatusMessage,
} from './messages.ts';
import { StatusReader, StatusWriter } from './status-messages.ts';

const STATUS_EVERY_MS = 500;
const SUMMARY_EVERY_MS = 1000;
const ASK_MS = 1000;

interface FleetNodeOptions {
  readonly node: string;
  readonly roles: NodeStatus['roles'];
  readonly version: string;
  readonly memoryBytes: number;
  readonly bus: Bus;
  readonly subjects: Subjects;
  readonly nowMs: () => number;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly onProblem: (message: string) => void;
}

interface WorkerState {
  readonly draining: boolean;
  readonly models: readonly ModelStatus[];
  readonly heard: NodeStatus['heard'];
}

const idle: WorkerState = { draining: false, models: [], heard: {} };

export class FleetNode {
  readonly start: string;
  readonly skews = new ClockSkews();
  readonly membership: Membership;
  readonly #options: FleetNodeOptions;
  readonly #endings: (() => void)[] = [];
  readonly #writer = new StatusWriter();
  readonly #reader = new StatusReader();
  /** Workers whose whole status is on its way. */
  readonly #asked = new Set<string>();
  /** Other processes by the same name, each reported once. */
  readonly #twins = new Set<string>();
  #workerState: () => WorkerState = () => idle;
  #placed: () => NodeStatus['placed'] = () => undefined;
  #published = 0;
  /** Since when the message system cannot be reached. */
  #lostMs: number | undefined;
  /** The message system does not let it hear what it is sent as a worker. */
  #isDeaf = false;

  constructor(options: FleetNodeOptions) {
    this.#options = options;
    const { nowMs, clock, randomBytes, bus, onProblem } = options;
    this.start = Buffer.from(randomBytes(8)).toString('hex');
    this.membership = new Membership(({ node, version, protocol }) =>
      onProblem(
        `${node} is left out: its version ${version} speaks protocol ${protocol} of a fleet, this node ${PROTOCOL}`,
      ),
    );
    this.membership.onChange((change, { node }) => {
      if (change === 'joined') return;
      this.skews.left(node);
      this.#reader.forget(node);
    });
    const timers = [
      clock.every(STATUS_EVERY_MS, () => this.#tick()),
      clock.every(SUMMARY_EVERY_MS, () => this.#publishSummary(false)),
    ];
    this.#endings.push(
      () => {
        for (const timer of timers) timer.end();
      },
      ...this.#listen(),
      bus.onState((state) => {
        if (state !== 'connected') {
          this.#lostMs ??= nowMs();
          return onProblem('the message system cannot be reached');
        }
        this.#lostMs = undefined;
        this.#isDeaf = false;
        this.membership.excuse(nowMs());
        this.#writer.forget();
        this.publishStatus();
      }),
    );
  }

  /** What it knows of the others is no longer true, and nobody can be asked. */
  isCutOff(): boolean {
    return this.#lostMs !== undefined && this.#options.nowMs() - this.#lostMs > LEASE_MS;
  }

  startWorker(state: () => WorkerState, answer: (question: Question) => Promise<Answer>): void {
    this.#workerState = state;
    const { bus, subjects, node } = this.#options;
    const answered = async (question: Question): Promise<Answer> => {
      const status = question.kind === 'status' ? this.#writer.whole : undefined;
      return status === undefined ? answer(question) : { kind: 'status', status };
    };
    this.#endings.push(
      bus.subscribe(
        subjects.ask(node),
        (question, reply) => void answered(question as Question).then((given) => reply?.(given)),
        () => this.leaveAsWorker(subjects.ask(node)),
      ),
    );
  }

  /** Published with the summaries of a gateway. */
  startPlacing(placed: () => NodeStatus['placed']): void {
    this.#placed = placed;
  }

  /** A worker that would get nothing must not be chosen. It is one again with the next connection, if it may listen then. */
  leaveAsWorker(subject: string): void {
    if (this.#isDeaf) return;
    this.#publishWorker(true);
    this.#isDeaf = true;
    const { onProblem } = this.#options;
    onProblem(`leaves the fleet as a worker: its NATS user may not subscribe to ${subject}`);
    this.#publishSummary(false);
  }

  publishStatus(): void {
    this.#publishWorker(false);
    this.#publishSummary(false);
  }

  get #roles(): NodeStatus['roles'] {
    const { roles } = this.#options;
    return this.#isDeaf ? roles.filter((role) => role !== 'worker') : roles;
  }

  #listen(): (() => void)[] {
    const { roles, bus, subjects, node } = this.#options;
    const isGateway = roles.includes('gateway');
    return [
      bus.subscribe(subjects.everySummary, (message) => this.#handleSummary(message as NodeStatus)),
      isGateway
        ? bus.subscribe(subjects.everyStatus, (message) => this.#handleStatus(message as StatusMessage))
        : bus.subscribe(subjects.status(node), (message) => this.#noteTwin(message as StatusMessage)),
    ];
  }

  #statusNow(state: WorkerState): NodeStatus {
    const { node, version, memoryBytes, clock } = this.#options;
    return {
      protocol: PROTOCOL,
      node,
      start: this.start,
      roles: this.#roles,
      version,
      memoryBytes,
      number: ++this.#published,
      sentMs: clock.wallMs(),
      ...state,
    };
  }

  #publishWorker(leaving: boolean): void {
    if (!this.#roles.includes('worker')) return;
    const { bus, subjects, node } = this.#options;
    const status = this.#statusNow(this.#workerState());
    bus.publish(subjects.status(node), this.#writer.next(leaving ? { ...status, leaving } : status));
  }

  #publishSummary(leaving: boolean): void {
    if (!this.#roles.includes('gateway')) return;
    const { bus, subjects, node } = this.#options;
    const summary = { ...this.#statusNow(idle), placed: this.#placed() };
    bus.publish(subjects.summary(node), leaving ? { ...summary, leaving } : summary);
  }

  readonly ask = async (node: string, question: Question, timeoutMs: number): Promise<Answer> => {
    const { bus, subjects } = this.#options;
    return (await bus.request(subjects.ask(node), question, timeoutMs)) as Answer;
  };

  /** Publishes that it leaves, so that nobody waits for its lease to end. */
  close(): void {
    this.#publishWorker(true);
    this.#publishSummary(true);
    for (const end of this.#endings) end();
  }

  #handleStatus(message: StatusMessage): void {
    this.#noteTwin(message);
    if (!this.membership.understands(message)) return;
    const status = this.#reader.read(message);
    if (status === undefined) void this.#askForWhole(message.node);
    else this.#take(status);
  }

  /** Where this fails, the next change shows that it is missing. */
  async #askForWhole(node: string): Promise<void> {
    if (this.#asked.has(node)) return;
    this.#asked.add(node);
    const answer = await this.ask(node, { kind: 'status' }, ASK_MS).catch(() => undefined);
    this.#asked.delete(node);
    if (answer?.kind === 'status' && this.membership.understands(answer.status))
      this.#take(this.#reader.readWhole(answer.status));
  }

  /** A node that subscribes to a worker's status needs no summary of it. */
  #handleSummary(summary: NodeStatus): void {
    this.#noteTwin(summary);
    const hearsWorkers = this.#options.roles.includes('gateway');
    if (this.membership.understands(summary) && !(hearsWorkers && summary.roles.includes('worker')))
      this.#take(summary);
  }

  #take(status: NodeStatus): void {
    const { nowMs, clock, onProblem } = this.#options;
    this.membership.handle(status, nowMs());
    if (status.leaving === true) return;
    const warning = this.skews.handle(status.node, status.sentMs, clock.wallMs());
    if (warning !== undefined) onProblem(warning);
  }

  #noteTwin(message: StatusMessage): void {
    const { node, onProblem } = this.#options;
    const isLeaving = 'leaving' in message && message.leaving === true;
    if (message.node !== node || message.start === this.start || isLeaving) return;
    if (this.#twins.has(message.start)) return;
    this.#twins.add(message.start);
    onProblem(`another node is called ${node}, too: give each a name of its own`);
  }

  #tick(): void {
    const { bus, nowMs } = this.#options;
    this.#publishWorker(false);
    if (bus.state === 'connected') this.membership.expire(nowMs());
  }
}
