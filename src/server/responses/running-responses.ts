// Streamed responses that run, by their ids: the key that started one can read and cancel it.

interface RunningResponse {
  readonly keyId: string;
  /** Whether it will be stored, and so may be read meanwhile. */
  readonly kept: boolean;
  now(): object;
  /** Resolves to the response as it ended. */
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
