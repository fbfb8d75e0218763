// Parsers for option values that several commands share; a bad value is one clear line.

import { InvalidArgumentError } from 'commander';

export function parseIds(text: string): number[] {
  const ids = text.split(',').map((part) => part.trim());
  if (ids.length === 0 || !ids.every((part) => /^\d+$/.test(part))) {
    throw new InvalidArgumentError('give token ids as whole numbers, separated by commas: 1,2,3');
  }
  return ids.map(Number);
}

export function parseCount(text: string): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1) throw new InvalidArgumentError('give a whole number from 1');
  return count;
}

export function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('give a number');
  return value;
}

export function parseInteger(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isSafeInteger(value))
    throw new InvalidArgumentError('give a whole number');
  return value;
}

export function parseTemperature(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0) {
    throw new InvalidArgumentError('give a number from 0');
  }
  return value;
}
