// What operators see and change in a fleet, at any gateway.

import type { Membership } from '../membership.ts';
import type { Answer, NodeStatus, Question } from '../messages.ts';
import { type DesiredState, type Placement, placedOn } from '../placement.ts';

const ASK_MS = 5000;

interface PlacedModel extends Placement {
  /** As far as there are workers that can load it. */
  readonly placedOn: readonly string[];
}

export interface FleetView {
  readonly nodes: readonly NodeStatus[];
  readonly placements: readonly PlacedModel[];
}

type Refusal = string | undefined;

export class FleetControl {
  readonly #membership: Membership;
  readonly #desired: DesiredState | undefined;
  readonly #ask: (node: string, question: Question, timeoutMs: number) => Promise<Answer>;

  /** Without a desired state, the message system stores nothing. */
  constructor(
    membership: Membership,
    desired: DesiredState | undefined,
    ask: (node: string, question: Question, timeoutMs: number) => Promise<Answer>,
  ) {
    this.#membership = membership;
    this.#desired = desired;
    this.#ask = ask;
  }

  async view(): Promise<FleetView> {
    const workers = this.#membership.workers();
    const placements = (await this.#desired?.placements()) ?? [];
    return {
      nodes: this.#membership.all().sort((a, b) => (a.node < b.node ? -1 : 1)),
      placements: placements.map((one) => ({ ...one, placedOn: placedOn(one, workers) })),
    };
  }

  async place(placement: Placement): Promise<Refusal> {
    if (this.#desired === undefined) return 'the message system keeps nothing: run NATS with JetStream';
    const workers = this.#membership.workers();
    if (!workers.some(({ models }) => models.some(({ name }) => name === placement.model))) {
      return `no worker has a model named ${placement.model}`;
    }
    const unknown = placement.nodes.find((node) => !workers.some((one) => one.node === node));
    if (unknown !== undefined) return `there is no worker named ${unknown}`;
    await this.#desired.place(placement);
    return undefined;
  }

  async drain(node: string, on: boolean): Promise<Refusal> {
    const status = this.#membership.get(node);
    if (status === undefined || !status.roles.includes('worker')) return `there is no worker named ${node}`;
    const answer = await this.#ask(node, { kind: 'drain', on }, ASK_MS);
    return answer.kind === 'refused' ? answer.reason : undefined;
  }
}
