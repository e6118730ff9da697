package spec

import "slices"

// schemaRoots are the types of the kinds.
func schemaRoots() map[string]schemaRoot {
	head := func(kind string, versions ...string) map[string][]string {
		return map[string][]string{"kind": {kind}, "apiVersion": versions}
	}
	return map[string]schemaRoot{
		RecipeKind:          {document: overlayDocument{}, head: head(RecipeKind, RecipeVersions()...)},
		RecipeMixinKind:     {document: mixinDocument{}, head: head(RecipeMixinKind, RecipeVersions()...)},
		RecipeResultKind:    {document: resultDocument{}, head: head(RecipeResultKind, RecipeVersions()...)},
		ValidationInputKind: {document: ValidationInput{}, head: head(ValidationInputKind, CatalogVersion)},
		SnapshotKind:        {document: Snapshot{}, head: head(SnapshotKind, SnapshotVersions()...)},
		CatalogKind:         {document: Catalog{}, head: head(CatalogKind, CatalogVersions()...)},
		ConfigKind:          {document: Config{}, head: head(ConfigKind, ConfigVersions()...)},
		VersionsKind:        {document: Versions{}, head: head(VersionsKind, VersionsVersion)},
		ScenarioKind:        {document: Scenario{}, head: head(ScenarioKind, APIVersion)},
		"Plan":              {document: planDocument{}, head: map[string][]string{"schema": {PlanSchema}}, complete: true},
	}
}

// schemaDefaulted are the types whose fields have defaults, in a document that is
// complete otherwise.
func schemaDefaulted() map[string]bool {
	all := map[string]bool{}
	for _, name := range []string{"Scenario", "Fleet", "Timing", "FrontendCost", "Load", "Reference", "Fault", "Expectation"} {
		all[name] = true
	}
	return all
}

// schemaRequired are the fields that the decoder wants.
func schemaRequired() map[string][]string {
	return map[string][]string{
		"overlayDocument":    {"kind", "apiVersion", "metadata"},
		"mixinDocument":      {"kind", "apiVersion", "metadata"},
		"resultDocument":     {"kind", "apiVersion"},
		"Metadata":           {"name"},
		"RecipeConstraint":   {"name", "value"},
		"Component":          {"name"},
		"ExcludedOverlay":    {"name"},
		"RecipeReference":    {"throughput", "gpus", "concurrencyPerGPU", "inputTokens", "outputTokens"},
		"Snapshot":           {"measurements"},
		"Measurement":        {"type"},
		"Subtype":            {"subtype"},
		"Unknown":            {"reason"},
		"Catalog":            {"validators"},
		"CatalogEntry":       {"name", "phase"},
		"envVarDocument":     {"name"},
		"DependencyAffinity": {"componentRef"},
		"Config":             {"kind", "apiVersion", "spec"},
		"Versions":           {"kind", "apiVersion", "charts", "images", "tools", "uses", "releases"},
		"PinnedChart":        {"name", "source", "version"},
		"PinnedImage":        {"name", "repository", "tag"},
		"PinnedTool":         {"name", "version", "locked"},
		"VersionUses":        {"graphAPI", "routerMode"},
		"DynamoRelease":      {"since", "graphAPIs", "routerModes", "source"},
		"Scenario":           {"kind", "apiVersion", "metadata"},
		"Expectation":        {"verdict"},
		"Fault":              {"kind"},
	}
}

// schemaRules are what fields may hold beyond their types, by type and JSON name.
func schemaRules() map[string]schemaRule {
	states := []string{string(Pass), string(Fail), string(Inconclusive), string(Invalid), string(Skip)}
	share := fromTo(0, 1)
	counted, tokens := fromTo(1, mostCounted), fromTo(1, mostTokens)
	// Only the performance phase has a verdict.
	noVerdict := func(s *jsonSchema) { s.Properties = schemaProperties{{"verdict", &jsonSchema{Not: &jsonSchema{}}}} }
	// An organisation may have words of its own; those that are known are offered.
	criteria := func(field string) schemaRule {
		return func(s *jsonSchema) {
			s.AnyOf = []*jsonSchema{{Enum: append(CriteriaWords(field), "")}, {Pattern: dnsLabel.String()}}
		}
	}
	return map[string]schemaRule{
		"Metadata.name": matching(dnsLabel),

		"CatalogEntry.name":              matching(dnsLabel),
		"CatalogEntry.phase":             oneOfWords(Phases()...),
		"CatalogEntry.image":             matching(imageShape),
		"CatalogEntry.timeout":           matching(goDuration),
		"CheckResources.cpu":             matching(quantity),
		"CheckResources.memory":          matching(quantity),
		"CheckResources":                 func(s *jsonSchema) { s.DependentRequired = map[string][]string{"cpu": {"memory"}, "memory": {"cpu"}} },
		"envVarDocument.name":            together(matching(variableName), func(s *jsonSchema) { s.Not = &jsonSchema{Enum: shellOnly()} }),
		"DependencyAffinity.requirement": oneOfWords(affinityWords()...),

		"ConfigSpec":                               func(s *jsonSchema) { s.MinProperties = 1 },
		"ConfigSnapshotOutput.format":              oneOfWords(append(configFormats(), "")...),
		"ConfigRecipeOutput.format":                oneOfWords(append(configFormats(), "")...),
		"ConfigSnapshotExecution.timeout":          matching(goDurationOrEmpty),
		"ConfigSnapshotExecution.maxNodesPerEntry": from(0),
		"ConfigValidateExecution.timeout":          matching(goDurationOrEmpty),
		"ConfigValidateExecution.phases":           together(eachOneOf(configPhases()...), func(s *jsonSchema) { s.UniqueItems = true }),

		"Fleet.profile":          oneOfWords(ProfileNames()...),
		"Fleet.router":           oneOfWords(Routers()...),
		"Fleet.workers":          fromTo(1, mostWorkers),
		"Fleet.gpusPerWorker":    fromTo(1, mostTogether),
		"Fleet.prefillWorkers":   fromTo(0, mostWorkers-1),
		"Fleet.maxSequences":     counted,
		"Fleet.maxBatchedTokens": counted,
		"Fleet.kvBlocks":         counted,
		"Load.inputTokens":       tokens,
		"Load.outputTokens":      tokens,
		"Expectation.verdict":    together(eachOneOf(states...), some),
		"Expectation.ledger":     oneOfWords("integrity", "capability", "stability"),
		"Expectation.finding":    oneOfWords(FindingIDs()...),
		"Fault.kind":             oneOfWords(faultKindNames()...),
		"Fault.running":          oneOfWords(runningWords()...),
		"Fault.how":              oneOfWords(howWords()...),
		"Fault.reason":           oneOfWords(reasonWords()...),
		"Fault.source":           oneOfWords(sourceWords()...),
		"Fault.share":            share,
		"Fault.perMinute":        above0,
		"Fault.status":           fromTo(400, 599),
		"Fault":                  faultsByKind,

		"planDocument.profile":    oneOfWords(Profiles()...),
		"planDocument.stability":  oneOfWords(StabilityGate, StabilityReport),
		"planDocument.noFreeGPUs": oneOfWords(NoFreeGPUsSkip, NoFreeGPUsFail),
		"PlannedCheck.verdict":    oneOfWords(string(Fail), string(Inconclusive), string(Skip), string(NotRun)),
		"CheckReason.code":        oneOfWords(checkReasonCodes()...),
		"Constraint.name":         oneOfWords(figureNames()...),
		"Constraint.threshold":    above0,
		"Constraint.tolerance":    fromTo(0, mostTolerance),

		"Criteria.service":                    criteria("service"),
		"Criteria.accelerator":                criteria("accelerator"),
		"Criteria.os":                         criteria("os"),
		"Criteria.intent":                     oneOfWords(append(CriteriaWords("intent"), "")...),
		"Criteria.platform":                   criteria("platform"),
		"Criteria.nodes":                      from(0),
		"RecipePhases.readiness":              noVerdict,
		"RecipePhases.deployment":             noVerdict,
		"RecipePhases.conformance":            noVerdict,
		"ValidationInput.gpuAllocationPolicy": oneOfWords(PolicyDevicePlugin, PolicyDRAClaim, PolicyDRAExtended, PolicyUnspecified, ""),
		"ValidationInput": func(s *jsonSchema) {
			s.DependentRequired = map[string][]string{"kind": {"apiVersion"}, "apiVersion": {"kind"}}
		},
		"Component.name": matching(dnsLabel),

		"Measurement.type": oneOfWords(MeasurementTypes()...),
		"Unknown.reason":   oneOfWords(UnknownReasons()...),

		"Versions.charts":           some,
		"Versions.images":           some,
		"Versions.tools":            some,
		"Versions.releases":         some,
		"PinnedTool.locked":         some,
		"DynamoRelease.graphAPIs":   some,
		"DynamoRelease.routerModes": some,

		"RecipeVerdict.profile":             oneOfWords(Profiles()...),
		"RecipeVerdict.stability":           oneOfWords(StabilityGate, StabilityReport),
		"RecipeVerdict.noFreeGPUs":          oneOfWords(NoFreeGPUsSkip, NoFreeGPUsFail),
		"RecipeConstraint.unit":             oneOfWords(append(UnitNames(), "")...),
		"RecipeConstraint.tolerance":        fromTo(0, mostTolerance),
		"RecipeReference.throughput":        above0,
		"RecipeReference.gpus":              fromTo(1, mostWorkers),
		"RecipeReference.concurrencyPerGPU": fromTo(1, mostInFlight),
		"RecipeReference.inputTokens":       tokens,
		"RecipeReference.outputTokens":      tokens,
		"RecipeReference.prompts":           counted,
	}
}

func faultKindNames() []string {
	var all []string
	for _, k := range FaultKinds() {
		all = append(all, string(k.Kind))
	}
	return all
}

// faultsByKind lets a fault have the fields of its kind alone, and wants those that it
// needs.
func faultsByKind(s *jsonSchema) {
	for _, k := range FaultKinds() {
		takes := (&Fault{Kind: k.Kind}).fieldNames()
		s.AllOf = append(s.AllOf, &jsonSchema{
			If:   &jsonSchema{Properties: schemaProperties{{"kind", &jsonSchema{Const: string(k.Kind)}}}, Required: []string{"kind"}},
			Then: &jsonSchema{Description: sentence(k.Effect), PropertyNames: &jsonSchema{Enum: takes}, Required: slices.Clone(k.Requires)},
		})
	}
}
