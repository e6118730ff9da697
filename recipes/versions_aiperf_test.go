package recipes_test

import (
	"testing"

	"aicr/recipes"
)

func TestAIPerfsImageIsOfTheVersionThatIsTestedWith(t *testing.T) {
	v, err := recipes.Versions()
	if err != nil {
		t.Fatal(err)
	}
	image, ok := v.Image("aiperf")
	if !ok {
		t.Fatal("no image of AIPerf is pinned")
	}
	for _, tool := range v.Tools {
		if tool.Name == "aiperf" && tool.Version == image.Tag {
			return
		}
	}
	t.Errorf("the image is at %s, and the tool is not", image.Tag)
}
