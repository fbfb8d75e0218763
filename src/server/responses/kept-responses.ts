// Stored responses, whose failures of the database become HTTP errors or lines in the log; and running ones, by their ids.

import type { FastifyBaseLogger } from 'fastify';
import type { NewResponse } from '../../store/response-store.ts';
import type { ServerContext } from '../context.ts';
import { badRequest, fromStore } from '../http/errors.ts';
import { imageBodyLimit } from '../settings.ts';
import type { ConversationItem } from './items.ts';

export class KeptResponses {
  readonly #store: ServerContext['responses'];
  /** A conversation may be as large as a body. */
  readonly #maxBytes: number;

  constructor({ responses, settings }: Pick<ServerContext, 'responses' | 'settings'>) {
    this.#store = responses;
    this.#maxBytes = imageBodyLimit(settings);
  }

  get keeps(): boolean {
    return this.#store !== undefined;
  }

  /** Whether the response could be stored; its client receives it in any case. */
  async save(
    keyId: string,
    response: NewResponse<ConversationItem>,
    log: Pick<FastifyBaseLogger, 'error'>,
  ): Promise<boolean> {
    try {
      if (this.#store !== undefined) await this.#store.save(keyId, response, await this.#store.nowMs());
      return this.keeps;
    } catch (error) {
      log.error({ err: error }, 'a response could not be stored');
      return false;
    }
  }

  async find(keyId: string, id: string): Promise<object | undefined> {
    const found = await explained(() => this.#store?.find(keyId, id));
    return found && { ...found.body, output: found.output };
  }

  async remove(keyId: string, id: string): Promise<boolean> {
    return (await explained(() => this.#store?.remove(keyId, id))) === true;
  }

  async givenFor(keyId: string, id: string, previousId: string | undefined): Promise<ConversationItem[]> {
    return explained(async () => {
      const history =
        previousId === undefined ? undefined : await this.#store?.history(keyId, previousId, this.#maxBytes);
      return [...(history?.ok ? history.items : []), ...((await this.#store?.input(keyId, id)) ?? [])];
    });
  }

  async history(keyId: string, id: string): Promise<readonly ConversationItem[]> {
    const param = 'previous_response_id';
    if (this.#store === undefined) throw badRequest(param, 'this server keeps no responses', 'not_stored');
    const store = this.#store;
    const history = await explained(() => store.history(keyId, id, this.#maxBytes));
    if (history.ok) return history.items;
    if (history.problem === 'too-large') throw badRequest(param, this.#tooLarge(history.bytes));
    const message =
      history.id === id
        ? `there is no stored response '${id.slice(0, 128)}'`
        : `the response '${history.id}', from which its conversation goes on, was deleted`;
    throw badRequest(param, message, 'previous_response_not_found');
  }

  async items(keyId: string, ids: readonly string[]): Promise<ReadonlyMap<string, ConversationItem>> {
    const found = await explained(() => this.#store?.items(keyId, ids, this.#maxBytes));
    if (found === undefined) return new Map();
    if (!found.ok) throw badRequest('input', this.#tooLarge(found.bytes));
    return found.items;
  }

  #tooLarge(bytes: number): string {
    return `${bytes} bytes of stored items are too many; ${this.#maxBytes} are possible`;
  }
}

const explained = <Result>(action: () => Result | Promise<Result>) => fromStore('stored responses', action);

interface RunningResponse {
  readonly keyId: string;
  readonly kept: boolean;
  now(): object;
  cancel(): Promise<object>;
}

export class RunningResponses {
  readonly #running = new Map<string, RunningResponse>();

  add(id: string, response: RunningResponse): void {
    this.#running.set(id, response);
  }

  remove(id: string): void {
    this.#running.delete(id);
  }

  find(keyId: string, id: string): RunningResponse | undefined {
    const found = this.#running.get(id);
    return found?.keyId === keyId ? found : undefined;
  }
}
