package workload

// The vocabulary of every synthetic prompt: 256 words, so that a byte names
// one, each of four letters, so that overwriting a word never moves a byte of
// the body. A word is its four letters and the space after it.
//
// They were chosen among common English words for costing exactly one token,
// with a leading space and without, in the vocabularies of Qwen, cl100k (which
// Llama 3 extends), o200k and GPT-2. Where a server's vocabulary differs, the
// probe's calibration carries the difference.
const words = "" +
	"able area away back ball band bank base beat bell best bird blue body bone book " +
	"born both call camp card care case cell chat city club come copy corn cost dark " +
	"date days deck does done door down draw each edge else even ever face fact fair " +
	"fall fast feed fill film find fire fish flag flat flow food foot form free from " +
	"full game gate goal good gray grid hair half hand hang hard have head heat held " +
	"help here high hill hold hole home hour inch into item join just keep kind king " +
	"know land last late lead leaf left less life like line list live load lock long " +
	"look love made mail main make mark mask mass mean menu mine mode more most move " +
	"must name need news next nice none note once only onto open oven over pace pack " +
	"page paid pair park part pass path peak pick pine pipe plan play plot plus pool " +
	"port post pull push rain rank rate read real rest rice rich ride ring rise road " +
	"rock role roll room root rose rule safe same save seed seen self send sent ship " +
	"shop shot show side sign site size soft sole some sort spot star step stop such " +
	"tail take task team term test than that then they this time tool town tree trip " +
	"true turn unit used very view wait walk wall wave week well went were west what " +
	"when wide will wind wing wire wise with wood word work yard year your zero zone "

const (
	letters = 4           // in a word
	stride  = letters + 1 // a word and the space after it
)
