// The adapters that requests to llama-server's own routes get where they say nothing, by model: what POST /lora-adapters has set. It is
// not kept beyond the life of the server, as in llama-server.

export class DefaultAdapters {
  readonly #byModel = new Map<string, string>();

  /** The name of the model with its adapter. */
  of(model: string): string | undefined {
    return this.#byModel.get(model);
  }

  /** `adapted` is the model itself where it is to have none. */
  set(model: string, adapted: string): void {
    this.#byModel.set(model, adapted);
  }
}
