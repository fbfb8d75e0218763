import { describe, expect, it } from 'vitest';
import { HabitDrafter, Habits } from './habits.ts';

function drafter(habits: Habits, salt: string, ...tokens: number[]): HabitDrafter {
  return new HabitDrafter(habits, salt, Int32Array.from(tokens));
}

describe('habits', () => {
  it('are what other answers went on with behind the same tokens', () => {
    const habits = new Habits();
    const teacher = drafter(habits, '', 1, 2, 3, 4);
    for (const token of [5, 6, 7]) teacher.accept(token);
    const pupil = drafter(habits, '', 1, 2, 3, 4);
    expect(pupil.guess()).toEqual({ token: 5, kind: 'habit4' });
    pupil.imagine(5);
    expect(pupil.guess()).toEqual({ token: 6, kind: 'habit4' });
    pupil.forget();
    expect(pupil.guess()?.token).toBe(5);
    expect(drafter(habits, '', 8, 9, 3, 4).guess()).toEqual({ token: 5, kind: 'habit2' });
  });

  it('of another salt are not known', () => {
    const habits = new Habits();
    drafter(habits, 'a', 1, 2, 3, 4).accept(5);
    expect(drafter(habits, 'b', 1, 2, 3, 4).guess()).toBeUndefined();
  });

  it('are those that were seen last', () => {
    const habits = new Habits();
    drafter(habits, '', 1, 2, 3, 4).accept(5);
    drafter(habits, '', 1, 2, 3, 4).accept(6);
    expect(drafter(habits, '', 1, 2, 3, 4).guess()?.token).toBe(6);
  });
});
