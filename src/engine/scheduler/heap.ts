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
