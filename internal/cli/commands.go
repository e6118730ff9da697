package cli

import "github.com/spf13/cobra"

// commands makes every command there is. To add one: write its constructor in
// a file of its own, add its line here, and run make docs.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newBench(a),
		newValidate(a),
		newJudge(a),
		newReport(a),
		newKnee(a),
		newRecipe(a),
		newSnapshot(a),
		newRun(a),
		newClean(a),
		newWatch(a),
		newSim(a),
		newVersions(a),
		newSchema(a),
		newEnvironment(a),
		newVersion(a),
		newCompletion(a),
		newHelp(a),
	}
}
