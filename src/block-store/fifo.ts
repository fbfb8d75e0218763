// A list that is taken from its front without moving the rest: that of a store of small blocks has a hundred thousand items.

const LEAST_TAKEN = 1024;

export class Fifo<T> {
  #items: T[] = [];
  /** Items before it are taken. */
  #first = 0;

  get length(): number {
    return this.#items.length - this.#first;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  peek(): T | undefined {
    return this.#items[this.#first];
  }

  /** No more than there are. */
  take(count: number): T[] {
    const taken = this.#items.slice(this.#first, this.#first + count);
    this.#first += taken.length;
    if (this.#first > LEAST_TAKEN && 2 * this.#first > this.#items.length) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
    return taken;
  }
}
