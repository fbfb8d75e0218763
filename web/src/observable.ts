// A value with listeners, and the hook that renders a component again when it changes.

import { useEffect, useReducer } from 'preact/hooks';

interface Observed<Value> {
  readonly value: Value;
  subscribe(listener: () => void): () => void;
}

export class Observable<Value> implements Observed<Value> {
  readonly #listeners = new Set<() => void>();
  #value: Value;

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  set(value: Value): void {
    this.#value = value;
    for (const listener of this.#listeners) listener();
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** Renders again whenever the value is set, even to the same. */
export function useValue<Value>(observed: Observed<Value>): Value {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => observed.subscribe(() => redraw(undefined)), [observed]);
  return observed.value;
}
