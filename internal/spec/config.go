package spec

// ConfigKind is the kind of a Config document.
const ConfigKind = "AICRConfig"

// ConfigVersions are the apiVersions of a Config that are read. The first is the one to
// write.
func ConfigVersions() []string {
	return []string{"aicr.run/v1beta1", "aicr.run/v1alpha2", "aicr.nvidia.com/v1alpha1"}
}

// Config holds what flags would say, for several commands, in one file that can be
// kept under version control. A flag prevails over it. What is nil was not said; what
// is empty was. It has no place for a secret.
type Config struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   *ConfigMetadata `json:"metadata,omitempty"`
	Spec       ConfigSpec      `json:"spec"`
	Unused     []Unused        `json:"-"`
}

// ConfigMetadata names a Config.
type ConfigMetadata struct {
	Name string `json:"name,omitempty"`
}

// ConfigSpec has a section a command. One at least is there.
type ConfigSpec struct {
	Snapshot *ConfigSnapshot `json:"snapshot,omitempty"` // for aicr snapshot
	Recipe   *ConfigRecipe   `json:"recipe,omitempty"`   // for aicr recipe
	Bundle   *ConfigBundle   `json:"bundle,omitempty" aicr:"unused"`
	Validate *ConfigValidate `json:"validate,omitempty"` // for aicr validate
	Verify   *ConfigVerify   `json:"verify,omitempty" aicr:"unused"`
}

// ConfigSnapshot is for aicr snapshot.
type ConfigSnapshot struct {
	Output    *ConfigSnapshotOutput    `json:"output,omitempty"`
	Agent     *ConfigSnapshotAgent     `json:"agent,omitempty" aicr:"unused"`
	Execution *ConfigSnapshotExecution `json:"execution,omitempty"`
}

// ConfigSnapshotOutput says where a snapshot goes, and in which form.
type ConfigSnapshotOutput struct {
	Path     string `json:"path,omitempty"`   // a file, - or cm://namespace/name
	Format   string `json:"format,omitempty"` // of what is written there
	Template string `json:"template,omitempty" aicr:"unused"`
}

// ConfigSnapshotExecution says how a snapshot is taken.
type ConfigSnapshotExecution struct {
	Timeout          string `json:"timeout,omitempty"` // as 90s or 5m
	NoCleanup        *bool  `json:"noCleanup,omitempty" aicr:"unused"`
	Privileged       *bool  `json:"privileged,omitempty" aicr:"unused"`
	MaxNodesPerEntry *int   `json:"maxNodesPerEntry,omitempty"` // node names kept of a topology entry; 0: all
}

// ConfigSnapshotAgent is about a Job that upstream takes a snapshot by.
type ConfigSnapshotAgent struct {
	Namespace          string            `json:"namespace,omitempty"`
	Image              string            `json:"image,omitempty"`
	ImagePullSecrets   []string          `json:"imagePullSecrets,omitzero"`
	JobName            string            `json:"jobName,omitempty"`
	ServiceAccountName string            `json:"serviceAccountName,omitempty"`
	NodeSelector       map[string]string `json:"nodeSelector,omitzero"`
	Tolerations        []string          `json:"tolerations,omitzero"` // each as key=value:effect
	RequireGPU         *bool             `json:"requireGpu,omitempty"`
	RuntimeClassName   string            `json:"runtimeClassName,omitempty"` // instead of requireGpu
	OS                 string            `json:"os,omitempty"`
	Requests           string            `json:"requests,omitempty"` // as cpu=500m,memory=1Gi
	Limits             string            `json:"limits,omitempty"`
}

// ConfigAgent is about the Jobs that upstream validates by.
type ConfigAgent struct {
	Namespace          string            `json:"namespace,omitempty"`
	Image              string            `json:"image,omitempty"`
	ImagePullSecrets   []string          `json:"imagePullSecrets,omitzero"`
	JobName            string            `json:"jobName,omitempty"`
	ServiceAccountName string            `json:"serviceAccountName,omitempty"`
	NodeSelector       map[string]string `json:"nodeSelector,omitzero"`
	Tolerations        []string          `json:"tolerations,omitzero"` // each as key=value:effect
	RequireGPU         *bool             `json:"requireGpu,omitempty"`
}

// ConfigRecipe is for aicr recipe. It has criteria, or a snapshot to conclude them
// from, and not both.
type ConfigRecipe struct {
	Criteria       *Criteria              `json:"criteria,omitempty"`
	Input          *ConfigRecipeInput     `json:"input,omitempty"`
	Output         *ConfigRecipeOutput    `json:"output,omitempty"`
	Data           string                 `json:"data,omitempty"` // a folder with overlays of your own
	Profile        string                 `json:"profile,omitempty" aicr:"unused"`
	CriteriaStrict *bool                  `json:"criteriaStrict,omitempty" aicr:"unused"`
	Configuration  *ConfigRecipeSelection `json:"configuration,omitempty" aicr:"unused"`
}

// ConfigRecipeInput is what criteria are concluded from.
type ConfigRecipeInput struct {
	Snapshot string `json:"snapshot,omitempty"` // a file
}

// ConfigRecipeOutput says where a recipe goes, and in which form.
type ConfigRecipeOutput struct {
	Path   string `json:"path,omitempty"`   // a file, or -
	Format string `json:"format,omitempty"` // of what is written there
}

// ConfigRecipeSelection chooses components that only upstream deploys.
type ConfigRecipeSelection struct {
	GKE              *ConfigGKE   `json:"gke,omitempty"`
	Slurm            *ConfigSlurm `json:"slurm,omitempty"`
	RuntimeInventory *ConfigMode  `json:"runtimeInventory,omitempty"`
}

// ConfigGKE names the networks behind the interfaces of a GPU node.
type ConfigGKE struct {
	TCPXOInterfaces []TCPXOInterface `json:"tcpxoInterfaces,omitzero"`
}

// ConfigSlurm chooses who owns Slurm's accounting.
type ConfigSlurm struct {
	Accounting *ConfigMode `json:"accounting,omitempty"`
}

// ConfigMode is one of upstream's words.
type ConfigMode struct {
	Mode string `json:"mode,omitempty"`
}

// ConfigBundle is for a command that only upstream has. Its path of a recipe must be
// the one that aicr recipe writes.
type ConfigBundle struct {
	Input       *ConfigBundleInput       `json:"input,omitempty"`
	Output      *ConfigBundleOutput      `json:"output,omitempty"`
	Deployment  *ConfigBundleDeployment  `json:"deployment,omitempty"`
	Scheduling  *ConfigBundleScheduling  `json:"scheduling,omitempty"`
	Attestation *ConfigBundleAttestation `json:"attestation,omitempty"`
	Registry    *ConfigBundleRegistry    `json:"registry,omitempty"`
}

// ConfigBundleInput is what is bundled.
type ConfigBundleInput struct {
	Recipe string `json:"recipe,omitempty"` // the file of recipe.output.path
}

// ConfigBundleOutput is where a bundle goes.
type ConfigBundleOutput struct {
	Target    string `json:"target,omitempty"`
	ImageRefs string `json:"imageRefs,omitempty"`
}

// ConfigBundleDeployment says what deploys a bundle.
type ConfigBundleDeployment struct {
	Deployer     string   `json:"deployer,omitempty"`
	Repo         string   `json:"repo,omitempty"`
	Set          []string `json:"set,omitzero"`
	Dynamic      []string `json:"dynamic,omitzero"`
	VendorCharts *bool    `json:"vendorCharts,omitempty"`
	AppName      string   `json:"appName,omitempty"`
}

// ConfigBundleScheduling says where a bundle's pods go.
type ConfigBundleScheduling struct {
	SystemNodeSelector         map[string]string `json:"systemNodeSelector,omitzero"`
	SystemNodeTolerations      []string          `json:"systemNodeTolerations,omitzero"`
	AcceleratedNodeSelector    map[string]string `json:"acceleratedNodeSelector,omitzero"`
	AcceleratedNodeTolerations []string          `json:"acceleratedNodeTolerations,omitzero"`
	DRAEvictionNodeLabel       string            `json:"draEvictionNodeLabel,omitempty"`
	WorkloadGate               string            `json:"workloadGate,omitempty"`
	WorkloadSelector           map[string]string `json:"workloadSelector,omitzero"`
	Nodes                      int               `json:"nodes,omitempty"`
	StorageClass               string            `json:"storageClass,omitempty"`
	SharedStorageClass         string            `json:"sharedStorageClass,omitempty"`
}

// ConfigBundleAttestation says how a bundle is signed.
type ConfigBundleAttestation struct {
	Enabled                   *bool  `json:"enabled,omitempty"`
	CertificateIdentityRegexp string `json:"certificateIdentityRegexp,omitempty"`
	OIDCDeviceFlow            *bool  `json:"oidcDeviceFlow,omitempty"`
	FulcioURL                 string `json:"fulcioURL,omitempty"`
	RekorURL                  string `json:"rekorURL,omitempty"`
	SigningKey                string `json:"signingKey,omitempty"` // names a key of a key service; it is none
}

// ConfigBundleRegistry says how a bundle is pushed.
type ConfigBundleRegistry struct {
	InsecureTLS *bool `json:"insecureTLS,omitempty"`
	PlainHTTP   *bool `json:"plainHTTP,omitempty"`
}

// ConfigValidate is for aicr validate.
type ConfigValidate struct {
	Input     *ConfigValidateInput     `json:"input,omitempty"`
	Agent     *ConfigAgent             `json:"agent,omitempty" aicr:"unused"`
	Execution *ConfigValidateExecution `json:"execution,omitempty"`
	Evidence  *ConfigEvidence          `json:"evidence,omitempty" aicr:"unused"`
}

// ConfigValidateInput is what is held against what.
type ConfigValidateInput struct {
	Recipe   string `json:"recipe,omitempty"`   // a file
	Snapshot string `json:"snapshot,omitempty"` // a file
}

// ConfigValidateExecution says what is checked, and what becomes of a failure.
type ConfigValidateExecution struct {
	Phases      []string `json:"phases,omitzero"`       // those that run; all of them when not said
	FailOnError *bool    `json:"failOnError,omitempty"` // false: a failed phase does not fail the command
	FailFast    *bool    `json:"failFast,omitempty"`    // stop after the first phase that fails
	NoCluster   *bool    `json:"noCluster,omitempty"`   // on paper alone: no cluster is contacted
	NoCleanup   *bool    `json:"noCleanup,omitempty"`   // leave what was made on the cluster
	Timeout     string   `json:"timeout,omitempty"`     // of the snapshot that is taken where none is given
	SkipChecks  []string `json:"skipChecks,omitzero"`   // checks that are left out
}

// ConfigEvidence is about papers that upstream writes of a validation.
type ConfigEvidence struct {
	CNCF        *ConfigEvidenceCNCF        `json:"cncf,omitempty"`
	Attestation *ConfigEvidenceAttestation `json:"attestation,omitempty"`
}

// ConfigEvidenceCNCF is about the papers of the CNCF's conformance programme.
type ConfigEvidenceCNCF struct {
	Dir            string   `json:"dir,omitempty"`
	CNCFSubmission *bool    `json:"cncfSubmission,omitempty"`
	Features       []string `json:"features,omitzero"`
}

// ConfigEvidenceAttestation is about a signed bundle of results.
type ConfigEvidenceAttestation struct {
	Out         string `json:"out,omitempty"`
	BOM         string `json:"bom,omitempty"`
	IncludeLogs *bool  `json:"includeLogs,omitempty"`
	Push        string `json:"push,omitempty"`
	PushLogs    *bool  `json:"pushLogs,omitempty"`
	PlainHTTP   *bool  `json:"plainHTTP,omitempty"`
	InsecureTLS *bool  `json:"insecureTLS,omitempty"`
}

// ConfigVerify is for a command that only upstream has.
type ConfigVerify struct {
	Policy *ConfigVerifyPolicy `json:"policy,omitempty"`
	Trust  *ConfigVerifyTrust  `json:"trust,omitempty"`
}

// ConfigVerifyPolicy is what a signed bundle has to have.
type ConfigVerifyPolicy struct {
	MinTrustLevel        string `json:"minTrustLevel,omitempty"`
	RequireCreator       string `json:"requireCreator,omitempty"`
	CLIVersionConstraint string `json:"cliVersionConstraint,omitempty"`
}

// ConfigVerifyTrust is what a signature is held against.
type ConfigVerifyTrust struct {
	CertificateIdentityRegexp string `json:"certificateIdentityRegexp,omitempty"`
	Key                       string `json:"key,omitempty"` // names a public key
	TrustRoot                 string `json:"trustRoot,omitempty"`
}
