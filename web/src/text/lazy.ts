// A module that is loaded when the first component needs it.

import { useEffect, useState } from 'preact/hooks';

export class Lazy<Module> {
  readonly #load: () => Promise<Module>;
  #module: Module | undefined;

  constructor(load: () => Promise<Module>) {
    this.#load = load;
  }

  get module(): Module | undefined {
    return this.#module;
  }

  async load(): Promise<void> {
    this.#module ??= await this.#load();
  }
}

/** Undefined until it is loaded, and where it cannot be. */
export function useLazy<Module>(lazy: Lazy<Module>): Module | undefined {
  const [, redraw] = useState(false);
  useEffect(() => {
    if (lazy.module !== undefined) return;
    let gone = false;
    lazy.load().then(
      () => gone || redraw(true),
      () => {},
    );
    return () => {
      gone = true;
    };
  }, [lazy]);
  return lazy.module;
}
