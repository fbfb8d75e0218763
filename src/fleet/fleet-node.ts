// One node of a fleet: publishes its status twice a second, follows the status of the others, and answers requests.

import { randomBytes } from 'node:crypto';
import type { Bus, Subjects } from './bus.ts';
import { ClockSkews } from './clock-skew.ts';
import { Membership } from './membership.ts';
import { type Answer, type ModelStatus, type NodeStatus, PROTOCOL, type Question } from './messages.ts';

const STATUS_EVERY_MS = 500;

interface FleetNodeOptions {
  readonly node: string;
  readonly roles: NodeStatus['roles'];
  readonly version: string;
  readonly memoryBytes: number;
  readonly bus: Bus;
  readonly subjects: Subjects;
  readonly nowMs: () => number;
  readonly onProblem: (message: string) => void;
}

interface WorkerState {
  readonly draining: boolean;
  readonly models: readonly ModelStatus[];
  readonly heard: NodeStatus['heard'];
}

const idle: WorkerState = { draining: false, models: [], heard: {} };

export class FleetNode {
  readonly start = randomBytes(8).toString('hex');
  readonly skews = new ClockSkews();
  readonly membership: Membership;
  readonly #options: FleetNodeOptions;
  readonly #endings: (() => void)[] = [];
  /** Other processes by the same name, each reported once. */
  readonly #twins = new Set<string>();
  #workerState: () => WorkerState = () => idle;
  #published = 0;
  /** The message system does not let it hear what it is sent as a worker. */
  #isDeaf = false;

  constructor(options: FleetNodeOptions) {
    this.#options = options;
    const { bus, subjects, nowMs, onProblem } = options;
    this.membership = new Membership(({ node, version }) =>
      onProblem(`${node} runs version ${version}, which speaks otherwise: it is left out`),
    );
    this.membership.onChange((change, { node }) => change === 'left' && this.skews.left(node));
    const timer = setInterval(() => this.#tick(), STATUS_EVERY_MS);
    this.#endings.push(
      () => clearInterval(timer),
      bus.subscribe(subjects.everyStatus, (message) => this.#handle(message as NodeStatus)),
      bus.onState((state) => {
        if (state !== 'connected') return onProblem('the message system cannot be reached');
        this.#isDeaf = false;
        this.membership.excuse(nowMs());
        this.publishStatus();
      }),
    );
  }

  startWorker(state: () => WorkerState, answer: (question: Question) => Promise<Answer>): void {
    this.#workerState = state;
    const { bus, subjects, node } = this.#options;
    this.#endings.push(
      bus.subscribe(
        subjects.ask(node),
        (question, reply) => void answer(question as Question).then((given) => reply?.(given)),
        () => this.leaveAsWorker(subjects.ask(node)),
      ),
    );
  }

  /** A worker that would get nothing must not be chosen. It is one again with the next connection, if it may listen then. */
  leaveAsWorker(subject: string): void {
    if (this.#isDeaf) return;
    this.#isDeaf = true;
    const { onProblem } = this.#options;
    onProblem(`leaves the fleet as a worker: its NATS user may not subscribe to ${subject}`);
    if (this.#roles.length === 0) this.#publish(true);
    else this.publishStatus();
  }

  publishStatus(): void {
    if (this.#roles.length > 0) this.#publish(false);
  }

  get #roles(): NodeStatus['roles'] {
    const { roles } = this.#options;
    return this.#isDeaf ? roles.filter((role) => role !== 'worker') : roles;
  }

  #publish(leaving: boolean): void {
    const { bus, subjects, node, version, memoryBytes } = this.#options;
    const status: NodeStatus = {
      protocol: PROTOCOL,
      node,
      start: this.start,
      roles: this.#roles,
      version,
      memoryBytes,
      number: ++this.#published,
      sentMs: Date.now(),
      ...(this.#isDeaf ? idle : this.#workerState()),
      ...(leaving ? { leaving } : {}),
    };
    bus.publish(subjects.status(node), status);
  }

  readonly ask = async (node: string, question: Question, timeoutMs: number): Promise<Answer> => {
    const { bus, subjects } = this.#options;
    return (await bus.request(subjects.ask(node), question, timeoutMs)) as Answer;
  };

  /** Publishes that it leaves, so that nobody waits for its lease to end. */
  close(): void {
    this.#publish(true);
    for (const end of this.#endings) end();
  }

  #handle(status: NodeStatus): void {
    const { node, nowMs, onProblem } = this.#options;
    const isTwin = status.node === node && status.start !== this.start && status.leaving !== true;
    if (isTwin && !this.#twins.has(status.start)) {
      this.#twins.add(status.start);
      onProblem(`another node is called ${node}, too: give each a name of its own`);
    }
    this.membership.handle(status, nowMs());
    if (status.leaving === true || status.protocol !== PROTOCOL) return;
    const warning = this.skews.handle(status.node, status.sentMs, Date.now());
    if (warning !== undefined) onProblem(warning);
  }

  #tick(): void {
    const { bus, nowMs } = this.#options;
    this.publishStatus();
    if (bus.state === 'connected') this.membership.expire(nowMs());
  }
}
