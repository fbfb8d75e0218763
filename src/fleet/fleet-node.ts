// One node of a fleet: says twice a second how it stands, hears the others, and answers what it is asked.

import { randomBytes } from 'node:crypto';
import type { Bus } from './bus.ts';
import { Membership } from './membership.ts';
import { type Answer, type ModelStatus, type NodeStatus, PROTOCOL, type Question } from './messages.ts';
import type { Subjects } from './subjects.ts';

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

/** What its worker adds to its status. */
interface Standing {
  readonly draining: boolean;
  readonly models: readonly ModelStatus[];
  readonly heard: NodeStatus['heard'];
}

const idle: Standing = { draining: false, models: [], heard: {} };

export class FleetNode {
  /** Later processes of the same name have higher ones. */
  readonly start = `${Date.now().toString(36).padStart(9, '0')}-${randomBytes(4).toString('hex')}`;
  readonly membership: Membership;
  readonly #options: FleetNodeOptions;
  readonly #endings: (() => void)[] = [];
  #standing: () => Standing = () => idle;
  #told = 0;

  constructor(options: FleetNodeOptions) {
    this.#options = options;
    const { bus, subjects, nowMs, onProblem } = options;
    this.membership = new Membership(({ node, version }) =>
      onProblem(`${node} runs version ${version}, which speaks otherwise: it is left out`),
    );
    const timer = setInterval(() => this.#tick(), STATUS_EVERY_MS);
    this.#endings.push(
      () => clearInterval(timer),
      bus.listen(subjects.everyStatus, (message) => this.#hear(message as NodeStatus)),
      bus.onState((state) => {
        if (state !== 'connected') return onProblem('the message system cannot be reached');
        this.membership.excuse(nowMs());
        this.tell();
      }),
    );
  }

  /** From now on it says how its worker stands, and answers questions to it. */
  work(standing: () => Standing, answer: (question: Question) => Promise<Answer>): void {
    this.#standing = standing;
    const { bus, subjects, node } = this.#options;
    this.#endings.push(
      bus.listen(subjects.ask(node), (question, reply) => {
        void answer(question as Question).then((given) => reply?.(given));
      }),
    );
  }

  /** Says how it stands now, and not only when it is time to. */
  tell(leaving = false): void {
    const { bus, subjects, node, roles, version, memoryBytes } = this.#options;
    const status: NodeStatus = {
      protocol: PROTOCOL,
      node,
      start: this.start,
      roles,
      version,
      memoryBytes,
      number: ++this.#told,
      ...this.#standing(),
      ...(leaving ? { leaving } : {}),
    };
    bus.tell(subjects.status(node), status);
  }

  async ask(node: string, question: Question, timeoutMs: number): Promise<Answer> {
    const { bus, subjects } = this.#options;
    return (await bus.ask(subjects.ask(node), question, timeoutMs)) as Answer;
  }

  /** Says good-bye: nobody need wait for its silence. */
  close(): void {
    this.tell(true);
    for (const end of this.#endings) end();
  }

  #hear(status: NodeStatus): void {
    const { node, nowMs, onProblem } = this.#options;
    if (status.node === node && status.start !== this.start && status.leaving !== true) {
      onProblem(`another node is called ${node}, too: give each a name of its own`);
    }
    this.membership.hear(status, nowMs());
  }

  #tick(): void {
    const { bus, nowMs } = this.#options;
    this.tell();
    if (bus.state === 'connected') this.membership.expire(nowMs());
  }
}
