// What a forward pass names while it is described, before there is a device or a weight: it is defined when the model loads.

export class Declared<Value> {
  readonly #label: string;
  #value: Value | undefined;

  constructor(label: string) {
    this.#label = label;
  }

  get value(): Value {
    if (this.#value === undefined) throw new Error(`${this.#label} is used before it is loaded`);
    return this.#value;
  }

  define(value: Value): void {
    this.#value = value;
  }
}
