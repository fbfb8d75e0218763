// What clients of every kind ask the embedded model, and what it knows to answer.

import { z } from 'zod';

export const Person = z.object({ name: z.string(), age: z.int(), city: z.string() });
export const nora = { name: 'Nora', age: 34, city: 'Bergen' };
export const meeting =
  'Extract name, age and city as JSON from this text: Meet Nora. Nora is 34 years old and lives in Bergen.';
export const greeting = 'Hello, who are you?';
export const weatherQuestion = 'What is the weather in Oslo?';
