// A binary heap that can lose or reorder any of its items in O(log n).

export class Heap<Item> {
  readonly #items: Item[] = [];
  readonly #places = new Map<Item, number>();
  readonly #compare: (a: Item, b: Item) => number;

  /** Negative where `a` comes first. */
  constructor(compare: (a: Item, b: Item) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#items.length;
  }

  /** In no particular order. */
  [Symbol.iterator](): Iterator<Item> {
    return this.#items[Symbol.iterator]();
  }

  /** Smallest first, without touching the heap, which must not change meanwhile. The first k cost O(k log k). */
  *inOrder(): Generator<Item, undefined> {
    const at = (index: number) => this.#items[index] as Item;
    const reached = new Heap<number>((a, b) => this.#compare(at(a), at(b)));
    if (this.size > 0) reached.push(0);
    for (let index = reached.peek(); index !== undefined; index = reached.peek()) {
      reached.remove(index);
      for (const child of [2 * index + 1, 2 * index + 2]) if (child < this.size) reached.push(child);
      yield at(index);
    }
  }

  has(item: Item): boolean {
    return this.#places.has(item);
  }

  peek(): Item | undefined {
    return this.#items[0];
  }

  push(item: Item): void {
    this.#items.push(item);
    this.#rise(item, this.#items.length - 1);
  }

  /** False where the item is not there. */
  remove(item: Item): boolean {
    const hole = this.#places.get(item);
    if (hole === undefined) return false;
    this.#places.delete(item);
    const last = this.#items.pop() as Item;
    if (last !== item) this.#settle(last, hole);
    return true;
  }

  /** Finds the item's place again after what it is compared by has changed. */
  update(item: Item): void {
    const place = this.#places.get(item);
    if (place !== undefined) this.#settle(item, place);
  }

  #settle(item: Item, from: number): void {
    this.#rise(item, from);
    this.#sink(item, this.#places.get(item) as number);
  }

  #rise(item: Item, from: number): void {
    let index = from;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = this.#items[parentIndex] as Item;
      if (this.#compare(parent, item) <= 0) break;
      this.#place(parent, index);
      index = parentIndex;
    }
    this.#place(item, index);
  }

  #sink(item: Item, from: number): void {
    let index = from;
    for (;;) {
      let childIndex = 2 * index + 1;
      if (childIndex >= this.#items.length) break;
      const right = this.#items[childIndex + 1];
      if (right !== undefined && this.#compare(right, this.#items[childIndex] as Item) < 0) childIndex += 1;
      const child = this.#items[childIndex] as Item;
      if (this.#compare(item, child) <= 0) break;
      this.#place(child, index);
      index = childIndex;
    }
    this.#place(item, index);
  }

  #place(item: Item, index: number): void {
    this.#items[index] = item;
    this.#places.set(item, index);
  }
}
