// Tries every order of moves of a small world and looks for two things: states from which nothing leads on though
// something is unfinished, and states that come again, so that a world can go round for ever.
//
// Two engines hear and compute independently of each other, and what is appended to a queue changes nothing for who
// takes from its front. So where an engine has something to hear, its own moves are tried first and no others: every
// order of the rest follows from there (a persistent set).

import { MemoryWorld, type Move, type Scene } from './memory-world.ts';

export interface Orders {
  readonly states: number;
  /** Moves that lead to where nothing moves any more though requests are unfinished. */
  readonly stuck: readonly (readonly Move[])[];
  /** Moves that lead into a circle. */
  readonly circles: readonly (readonly Move[])[];
}

interface State {
  readonly id: number;
  readonly path: readonly Move[];
  /** What is left to try from here. */
  readonly moves: Move[];
}

export async function everyOrder(scene: Scene, mostStates = 20_000): Promise<Orders> {
  const ids = new Map<string, number>();
  const [stuck, circles]: [(readonly Move[])[], (readonly Move[])[]] = [[], []];
  /** The states on the way to the present one, each with what is still to be tried. */
  const way: State[] = [];
  const onWay = new Set<number>();
  let world = await MemoryWorld.open(scene);
  const enter = (path: readonly Move[]) => {
    const known = ids.get(world.state);
    if (known !== undefined) {
      if (onWay.has(known)) circles.push(path);
      return;
    }
    const id = ids.size;
    if (id >= mostStates) throw new Error(`there are more than ${mostStates} states`);
    ids.set(world.state, id);
    const moves = world.unfinished === 0 ? [] : world.moves();
    if (world.unfinished > 0 && moves.length === 0) stuck.push(path);
    onWay.add(id);
    way.push({ id, path, moves: ownMovesFirst(moves) });
  };
  enter([]);
  let at: readonly Move[] = [];
  for (let state = way.at(-1); state !== undefined; state = way.at(-1)) {
    const move = state.moves.pop();
    if (move === undefined) {
      onWay.delete(state.id);
      way.pop();
      continue;
    }
    if (at !== state.path) {
      await world.close();
      world = await MemoryWorld.open(scene, state.path);
    }
    await world.make(move);
    at = [...state.path, move];
    enter(at);
  }
  await world.close();
  return { states: ids.size, stuck, circles };
}

function ownMovesFirst(moves: Move[]): Move[] {
  const hearing = moves.find((move) => move.startsWith('hear '));
  if (hearing === undefined) return moves;
  const compute = hearing.replace('hear', 'compute') as Move;
  return moves.includes(compute) ? [hearing, compute] : [hearing];
}
