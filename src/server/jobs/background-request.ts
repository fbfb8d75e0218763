// What is particular to a request that no client waits for.

import type { FastifyReply } from 'fastify';

/** A request that no client waits for, and that goes on after a restart by itself. */
export interface BackgroundRequest {
  /** Where it is known before the answer begins. */
  readonly answerId?: string;
  /** What it used is written together with its answer, and with nothing else. */
  readonly chargedWithAnswer?: boolean;
  /** Called once it has a place in the queue, maybe twice; where that fails the request does. */
  queued?(model: string, reply: FastifyReply): Promise<void>;
}
