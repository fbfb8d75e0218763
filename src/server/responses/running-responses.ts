// Streamed responses under way, by their ids: whoever began one can look at it and call it off.

interface RunningResponse {
  readonly keyId: string;
  /** Whether it will be kept, and so may be looked at. */
  readonly kept: boolean;
  now(): object;
  /** The response as it ended. */
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
