// node junit_schema.js HOME SCHEMA FILE...: prints a line for every fault that the
// schema finds in a file. HOME is where npm has installed the validator.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const home = process.argv[2];
const { validateXML } = require(require.resolve("xmllint-wasm", { paths: [home] }));

async function main([schema, ...files]) {
	const xsd = fs.readFileSync(schema, "utf8");
	for (const file of files) {
		const name = path.basename(file);
		const told = await validateXML({ xml: { fileName: name, contents: fs.readFileSync(file, "utf8") }, schema: xsd });
		for (const e of told.errors) {
			console.log(`${file}: ${e.message}`);
		}
		if (!told.valid && told.errors.length === 0) {
			console.log(`${file}: ${told.rawOutput}`);
		}
	}
}

main(process.argv.slice(3)).catch((e) => {
	console.error(e);
	process.exitCode = 1;
});
