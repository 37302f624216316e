// SPDX-License-Identifier: Apache-2.0
//
// rate-limiter-flexible on ioredis: a line of input `SECONDS WINDOW KEYS` is answered by a
// line of JSON; `versions` by the versions.
//   node bench.js 6379
'use strict';
const readline = require('readline');
const Redis = require('ioredis');
const {RateLimiterRedis} = require('rate-limiter-flexible');

const client = new Redis({port: Number(process.argv[2]), host: '127.0.0.1'});
const limiter = new RateLimiterRedis(
    {storeClient: client, points: 1000, duration: 1, keyPrefix: 'flexible'});

async function run(seconds, window, keys) {
  const end = Date.now() + seconds * 1000;
  const begin = process.hrtime.bigint();
  let done = 0;
  const one = async () => {
    while (Date.now() < end) {
      await limiter.consume('user' + Math.floor(Math.random() * keys)).catch((refused) => {
        if (refused instanceof Error) throw refused;
      });
      ++done;
    }
  };
  await Promise.all(Array.from({length: window}, one));
  return {rate: done / (Number(process.hrtime.bigint() - begin) / 1e9)};
}

async function main() {
  await client.ping();
  console.log('ready');
  for await (const line of readline.createInterface({input: process.stdin})) {
    const words = line.split(' ');
    const answer = words[0] === 'versions' ?
        ['rate-limiter-flexible', 'ioredis']
            .map((name) => `${name} ${require(name + '/package.json').version}`)
            .concat(`node ${process.version}`)
            .join(', ') :
        await run(Number(words[0]), Number(words[1]), Number(words[2]));
    console.log(JSON.stringify(answer));
  }
  client.disconnect();
}

main();
