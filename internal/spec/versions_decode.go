package spec

// DecodeVersions reads a Versions document from YAML or JSON: its form alone. Whether
// the versions go together is recipes.CheckVersions' to say. The error, if any, is a
// Mistakes.
func DecodeVersions(data []byte) (*Versions, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	v := &Versions{}
	d := decode(root, v)
	d.constant("apiVersion", v.APIVersion, VersionsVersion)
	d.constant("kind", v.Kind, VersionsKind)
	for _, list := range []struct {
		path string
		len  int
	}{{"charts", len(v.Charts)}, {"images", len(v.Images)}, {"tools", len(v.Tools)}, {"releases", len(v.Releases)}} {
		d.pinnedList(list.path, list.len)
	}
	for i, c := range v.Charts {
		at := element("charts", i)
		d.pinnedText(at, "name", c.Name)
		d.pinnedText(at, "source", c.Source)
		d.pinnedText(at, "version", c.Version)
	}
	for i, m := range v.Images {
		at := element("images", i)
		d.pinnedText(at, "name", m.Name)
		d.pinnedText(at, "repository", m.Repository)
		d.pinnedText(at, "tag", m.Tag)
	}
	for i, t := range v.Tools {
		at := element("tools", i)
		d.pinnedText(at, "name", t.Name)
		d.pinnedText(at, "version", t.Version)
		d.pinnedList(join(at, "locked"), len(t.Locked))
	}
	d.pinnedText("uses", "graphAPI", v.Uses.GraphAPI)
	d.pinnedText("uses", "routerMode", v.Uses.RouterMode)
	for i, r := range v.Releases {
		at := element("releases", i)
		d.pinnedText(at, "since", r.Since)
		d.pinnedText(at, "source", r.Source)
		d.pinnedList(join(at, "graphAPIs"), len(r.GraphAPIs))
		d.pinnedList(join(at, "routerModes"), len(r.RouterModes))
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	v.lines = map[string]int{}
	for path, at := range d.written {
		v.lines[path] = at.line
	}
	return v, nil
}

func (d *document) pinnedText(at, field, value string) {
	if path := join(at, field); d.require(path, "write "+field+": a-value") && d.sound(path) && value == "" {
		d.wrong(path, "no value", "write a value")
	}
}

func (d *document) pinnedList(path string, length int) {
	if d.require(path, "write at least one") && d.sound(path) && length == 0 {
		d.wrong(path, "nothing is there", "write at least one")
	}
}
