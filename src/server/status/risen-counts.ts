// By how much counts have risen since they were last told. Those of an engine that was lost begin again at nothing.

export class RisenCounts {
  #last = new Map<string, number>();

  by(name: string, count: number): number {
    const risen = Math.max(0, count - (this.#last.get(name) ?? 0));
    this.#last.set(name, count);
    return risen;
  }

  restart(): void {
    this.#last = new Map();
  }
}
