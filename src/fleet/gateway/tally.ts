// How often each value is there, in the order in which they came.

export class Tally<Value> {
  readonly #counts = new Map<Value, number>();

  add(value: Value): void {
    this.#counts.set(value, this.of(value) + 1);
  }

  remove(value: Value): void {
    const count = this.of(value) - 1;
    if (count > 0) this.#counts.set(value, count);
    else this.#counts.delete(value);
  }

  of(value: Value): number {
    return this.#counts.get(value) ?? 0;
  }

  has(value: Value): boolean {
    return this.#counts.has(value);
  }

  values(): Value[] {
    return [...this.#counts.keys()];
  }
}
